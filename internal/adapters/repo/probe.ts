// Finds out what a git server supports by asking it, and says it in sentences.

import { createHostCache } from './repo.ts';
import { RemoteSource } from './remote.ts';
import { type OpenOptions, type ProbeReport, RepoCondition, type Snapshot, type Tip } from './types.ts';

/** Tries discovery, the tip and one read. Throws `RepoCondition` only where the server cannot be talked to at all. */
export async function probeRemote(url: string, options: OpenOptions, signal?: AbortSignal): Promise<ProbeReport> {
  // A cache of its own, so that what is reported was found out now.
  const source = new RemoteSource(
    { kind: 'remote', url, root: '' },
    { ...options, hostCache: createHostCache(), verify: null },
  );
  try {
    const said = await source.within(signal, (deadline) => source.wire.capabilities(2, deadline));
    const advice: string[] = [];
    const tip = await noted<Tip>(source.resolve(signal), advice);
    const snapshot =
      tip === null || said.objectFormat !== 'sha1' ? null : await noted<Snapshot>(source.snapshot(tip), advice);
    const via = (snapshot?.via ?? null) as ProbeReport['via'];
    const movedTo = source.wire.http.movedTo ?? null;
    if (movedTo !== null) advice.push(`The repository has moved to ${movedTo}: change its address.`);
    advice.push(...sentences(said.protocol, said.filter, via));
    if (snapshot?.bundle?.hasSvc === false) advice.push('The default branch has no .svc/ directory at its top.');
    return {
      url,
      reachable: true,
      protocol: said.protocol,
      agent: said.agent,
      objectFormat: said.objectFormat,
      filter: said.filter,
      via,
      defaultBranch: tip?.ref?.replace(/^refs\/heads\//, '') ?? null,
      commit: tip?.commit ?? null,
      hasSvc: snapshot?.bundle?.hasSvc ?? null,
      movedTo,
      traffic: source.traffic(),
      advice,
    };
  } finally {
    await source.close();
  }
}

async function noted<T>(work: Promise<T>, advice: string[]): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof RepoCondition)) throw error;
    advice.push(`Reading it fails (${error.condition}): ${error.detail}.`);
    return null;
  }
}

function sentences(protocol: 0 | 1 | 2, filter: boolean, via: ProbeReport['via']): string[] {
  if (protocol < 2) {
    return [
      'The server speaks an old protocol: each poll transfers all refs and each change the whole tree. Hand GIT_PROTOCOL on to git to enable version 2.',
    ];
  }
  if (!filter)
    return [
      'The server has no partial clone: each change transfers the whole tree. Set uploadpack.allowFilter=true on the server.',
    ];
  if (via === 'sparse3') return ['The server supports everything: a change costs three small requests.'];
  if (via === 'sparse4')
    return ['The server supports tree filters of depth 0 only: a change costs four small requests.'];
  if (via === 'blobless')
    return [
      'The server refuses tree filters: each change transfers all directories, but only the files that are read.',
    ];
  return [];
}
