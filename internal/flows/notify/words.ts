// What people are told, in words: pure functions of a notice. Whatever comes from outside stands in code, so that it
// addresses nobody; each message ends with the command and the page that show more.

import { textAt } from '../../domain/fields.ts';
import type { JsonObject } from '../../domain/json.ts';
import { type Notice, severityOf } from '../../domain/notification.ts';
import { pathPart } from '../../domain/path-part.ts';
import { code, cut, plain } from '../markup.ts';

/** Where the reader finds more. */
export interface Place {
  /** Slugs. */
  readonly org: string;
  readonly project: string;
  /** Of the service, without a slash at its end. */
  readonly baseUrl: string;
}

export interface Words {
  /** One line without markup. */
  readonly title: string;
  /** Markdown. */
  readonly text: string;
  readonly command: string;
  readonly page: string;
  readonly involved: { readonly kind: string; readonly name: string };
}

const most = { quoted: 500, name: 200 } as const;
const nameIn = (subject: JsonObject, key: string): string => cut(plain(textAt(subject[key]) ?? ''), most.name);
const quotedIn = (subject: JsonObject, key: string): string => cut(plain(textAt(subject[key]) ?? ''), most.quoted);

interface Parts {
  /** `{}` stands for the name of what it is about. */
  readonly headline: string;
  readonly name: string;
  readonly quoted?: string;
  readonly command: string;
  readonly path: string;
  readonly kind: string;
  readonly more?: string;
}

function syncParts({ condition, subject }: Notice): Parts {
  const name = nameIn(subject, 'repository');
  const commit = textAt(subject['commit'])?.slice(0, 12);
  const at = commit === undefined ? '' : ` at ${plain(commit)}`;
  const of = {
    name,
    kind: 'Repository',
    command: `svc reconcile show ${nameIn(subject, 'run')}`,
    path: `repositories/${name}`,
  };
  if (condition === 'sync-recovered') {
    return { ...of, headline: `Sync of {} has recovered${at}`, quoted: `it was: ${quotedIn(subject, 'was')}` };
  }
  const held = condition === 'sync-held';
  const why = textAt(subject['error']) ?? textAt(subject['detail']) ?? textAt(subject['condition']) ?? '';
  return {
    ...of,
    headline: `Sync of {} ${held ? 'is held' : 'has failed'}${at}`,
    quoted: cut(plain(why), most.quoted),
    ...(held && { more: `Approve it with ${code(`svc repo approve ${name} ${nameIn(subject, 'run')}`)}.` }),
  };
}

const sessionHeadlines: { readonly [condition: string]: string } = {
  'session-failed': 'A session of {} has failed',
  'session-blocked': 'A session of {} is blocked',
  'session-asks': 'A session of {} asks for permission',
  'launch-failed': 'A session of {} could not be started',
  'cap-reached': 'A spend cap of {} is reached',
};

function sessionParts({ condition, subject }: Notice): Parts {
  const session = nameIn(subject, 'session');
  const asks = condition === 'session-asks';
  return {
    headline: sessionHeadlines[condition] ?? '',
    name: nameIn(subject, 'agent'),
    quoted: quotedIn(subject, asks ? 'title' : 'reason'),
    kind: condition === 'cap-reached' ? 'Agent' : 'Session',
    command: asks ? `svc session allow ${session}` : `svc session show ${session}`,
    path: `sessions/${session}`,
  };
}

function partsOf(notice: Notice): Parts {
  const { condition, subject } = notice;
  if (condition.startsWith('sync-')) return syncParts(notice);
  if (condition === 'connection-lost') {
    const name = nameIn(subject, 'connection');
    const why = ['status', 'reason'].map((key) => quotedIn(subject, key)).filter((text) => text !== '');
    const of = { name, kind: 'Connection', command: `svc connection show ${name}`, path: 'connections' };
    return { ...of, headline: 'The connection {} is lost', quoted: why.join(': ') };
  }
  if (condition === 'secret-expiring') {
    const name = nameIn(subject, 'secret');
    const scope = subject['scope'] === 'organization' ? ' --org' : '';
    const idle = subject['idle'] === true ? ', unless it is used' : '';
    const headline = `The secret {} expires at ${nameIn(subject, 'expiresAt')}${idle}`;
    return { headline, name, kind: 'Secret', command: `svc secret show ${name}${scope}`, path: 'secrets' };
  }
  if (condition === 'test') {
    const name = nameIn(subject, 'receiver');
    return { headline: 'A test of the receiver {}', name, kind: 'Receiver', command: 'svc notify list', path: '' };
  }
  return sessionParts(notice);
}

const marks = { info: '✅', warning: '⚠️', error: '❌' } as const;

/** A notice for a receiver. */
export function wordsOf(notice: Notice, place: Place): Words {
  const { headline, name, quoted, command, path, kind, more } = partsOf(notice);
  const page = `${place.baseUrl}/${place.org}/${place.project}${path === '' ? '' : `/${path.split('/').map(pathPart).join('/')}`}`;
  const title = headline.replace('{}', () => name);
  const lines = [
    `${marks[severityOf(notice.condition)]} **${headline.replace('{}', () => code(name))}** in ${code(`${place.org}/${place.project}`)}`,
    ...(quoted === undefined || quoted === '' ? [] : [code(quoted)]),
    ...(more === undefined ? [] : [more]),
    `More: ${code(command)} or ${page}`,
  ];
  return { title, text: lines.join('\n'), command, page, involved: { kind, name } };
}

/** What is said where a session came from: in a thread, on a pull request or an issue. */
export function originText(notice: Notice, place: Place): string {
  const { headline, name, quoted, command, page } = { ...partsOf(notice), ...wordsOf(notice, place) };
  const asks = notice.condition === 'session-asks';
  const lines = [
    headline.replace('{}', () => code(name)) + (asks ? ':' : '.'),
    ...(quoted === undefined || quoted === '' ? [] : [code(quoted)]),
    ...(asks ? [`Approvers answer here with ${code('allow')} or ${code('reject')}.`] : []),
    `More: ${code(command)} or ${page}`,
  ];
  return lines.join('\n\n');
}

/** The body of a signed webhook. */
export function webhookBody(notice: Notice, place: Place): JsonObject {
  const { title, command, page, involved } = wordsOf(notice, place);
  const { condition, subject, at, id } = notice;
  return {
    id,
    condition,
    severity: severityOf(condition),
    timestamp: at.toISOString(),
    message: title,
    organization: place.org,
    project: place.project,
    involvedObject: { ...involved },
    metadata: Object.fromEntries(
      Object.entries(subject)
        .filter(([, value]) => value !== null)
        .map(([key, value]) => [key, typeof value === 'string' ? cut(plain(value), most.quoted) : value]),
    ),
    command,
    url: page,
  };
}
