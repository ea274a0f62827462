// What a repository's address may look like. Pure. The scp form (`git@host:owner/repo.git`) and ssh:// become https;
// credentials, queries and fragments are refused, and so is every scheme but https (http where it is allowed).

import { hostFault } from '../../base/net/net.ts';
import { RepoCondition } from './types.ts';

/**
 * The base URL, without a trailing slash, to which `/info/refs` is added. Throws `not-found` with what to write instead,
 * or `unreachable` for plain http on a private host.
 */
export function parseRepoUrl(text: string, allowHttp: boolean): URL {
  const url = URL.parse(rewriteSsh(text.trim()));
  const form = 'write https://host/owner/repository.git';
  if (url === null) throw refused(`the repository address is not a URL: ${form}`);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw refused(`repositories are read over https, not ${url.protocol.slice(0, 20)} ${form}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw refused('the repository address holds credentials: give them as auth, with the token in a secret');
  }
  if (url.protocol === 'http:' && !allowHttp) throw httpRefused(url);
  if (url.search !== '' || url.hash !== '') throw refused('the repository address holds a query or fragment');
  url.pathname = url.pathname.replace(/\/+$/, '');
  return url;
}

function rewriteSsh(text: string): string {
  const scp = /^(?:[A-Za-z0-9_.-]+@)?([A-Za-z0-9.-]+):(?!\/\/)\/?([^\s]+)$/.exec(text);
  if (scp !== null && !/^\d+(?:\/|$)/.test(scp[2] as string)) return `https://${scp[1]}/${scp[2]}`;
  const ssh = /^(?:git\+)?ssh:\/\/(?:[A-Za-z0-9_.-]+@)?([A-Za-z0-9.-]+)(?::\d+)?\/([^\s]+)$/.exec(text);
  return ssh === null ? text : `https://${ssh[1]}/${ssh[2]}`;
}

/** On a private host the network rule is what stands in the way: https there would be refused as well. */
function httpRefused(url: URL): RepoCondition {
  const fault = hostFault(url.hostname);
  if (fault === null) return refused('plain http is refused: use https');
  const setting = 'private networks and plain http there need SVC_ALLOW_PRIVATE_NETWORK=true';
  return new RepoCondition('unreachable', `${url.host} is refused: ${fault}, and ${setting}`);
}

function refused(why: string): RepoCondition {
  return new RepoCondition('not-found', why);
}
