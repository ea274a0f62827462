// Which files of `.svc/` are agent documents, and what is said about the others (docs/reference/compile.md#files).

import type { Bundle, BundleEntry } from '../../domain/bundle.ts';
import type { Finding } from '../../domain/diagnostic.ts';
import { nearest } from '../../domain/nearest.ts';
import { isDocumentFile } from '../source/source.ts';

export interface TreeSections {
  /** Agent files, sorted by path. */
  readonly agents: readonly BundleEntry[];
  /** Files that the spec does not name, sorted; each is a warning unless an agent imports or loads it. */
  readonly unnamed: readonly string[];
  readonly findings: readonly Finding[];
}

const root = '.svc/';
const legacyDirectories = ['sessions', 'environments', 'identities'];

/** Sorts the entries under `.svc/` into agent files, unnamed files and findings. */
export function classifyTree(bundle: Bundle): TreeSections {
  const findings: Finding[] = [];
  const agents: BundleEntry[] = [];
  const unnamed: string[] = [];
  const legacy = new Set<string>();
  const entries = inOrder([...bundle.entries].filter(([path]) => path === '.svc' || path.startsWith('.svc/')));
  // A file of that name is no directory.
  if (!bundle.hasSvc && entries.every(([path, { kind }]) => path === '.svc' && kind === 'file'))
    findings.push(noTree());
  for (const [path, entry] of entries) {
    const { kind } = entry;
    const end = path.indexOf('/', root.length);
    const room = end === -1 ? path.slice(root.length) : path.slice(root.length, end);
    const isBelow = end !== -1;
    if (kind === 'symlink' || kind === 'submodule') findings.push(link(path, kind));
    else if (legacyDirectories.includes(room) && isBelow) legacy.add(room);
    else if (room === 'agents' && isBelow && isAgentName(path.slice(end + 1))) agents.push(entry);
    else if (!((room === 'fragments' || room === 'assets') && isBelow)) unnamed.push(path);
  }
  for (const room of legacy) findings.push(legacyDirectory(room));
  return { agents, unnamed, findings };
}

type Entry = readonly [path: string, entry: BundleEntry];

/** By path, which is how most readers give them. */
function inOrder(entries: Entry[]): readonly Entry[] {
  const isOrdered = entries.every(([path], index) => index === 0 || (entries[index - 1] as Entry)[0] < path);
  return isOrdered ? entries : entries.sort(([left], [right]) => (left < right ? -1 : 1));
}

const isAgentName = (name: string): boolean => isDocumentFile(name) && !name.startsWith('.') && !name.includes('/');

/** The warning for a file that the spec does not name and nothing uses. */
export function ignoredFile(path: string): Finding {
  const below = path.startsWith('.svc/agents/');
  const nested = below && path.split('/').length > 3;
  const hidden = path.startsWith('.svc/agents/.');
  const reason = nested
    ? 'it is not directly in .svc/agents/'
    : hidden
      ? 'its name begins with a dot'
      : 'agents are .yaml, .yml and .json files in .svc/agents/';
  return {
    severity: 'warning',
    code: 'ignored-file',
    message: `The file is ignored: ${reason}`,
    file: path,
    hint: nested
      ? 'Move it up to make it an agent, or to .svc/fragments/ to import it.'
      : (meantPath(path) ?? 'Remove it, or move it out of .svc/.'),
  };
}

/** Where a document that lies beside `.svc/agents/`, or in a directory of nearly that name, was meant to lie. */
function meantPath(path: string): string | undefined {
  const [, directory, name = ''] =
    /^\.svc\/(?:([^/]+)\/)?([^/.][^/]*\.(?:yaml|yml|json))$/.exec(path.replace(/\.txt$/, '')) ?? [];
  if (name === '' || name.startsWith('config.')) return undefined;
  if (directory !== undefined && nearest(directory, ['agents', 'fragments']) === undefined) return undefined;
  const meant = directory === undefined ? 'agents' : nearest(directory, ['agents', 'fragments']);
  return `Did you mean .svc/${meant}/${name}?`;
}

function noTree(): Finding {
  return {
    severity: 'error',
    code: 'no-svc-directory',
    message: 'There is no .svc directory here',
    hint: 'Agents are declared in .svc/agents/*.yaml below the root of the tree.',
  };
}

function link(path: string, kind: 'symlink' | 'submodule'): Finding {
  return {
    severity: 'error',
    code: kind === 'symlink' ? 'symlink-refused' : 'submodule-refused',
    message: `${path} is a ${kind === 'symlink' ? 'symbolic link' : 'submodule'}, which is refused`,
    file: path,
    hint: 'Commit the files themselves.',
  };
}

function legacyDirectory(room: string): Finding {
  return {
    severity: 'error',
    code: 'legacy-directory',
    message: `The legacy directory .svc/${room}/ is rejected`,
    file: `.svc/${room}`,
    hint:
      room === 'sessions'
        ? 'Move the agents to .svc/agents/, with their fields at the document root.'
        : `Declare ${room} inline in the agents that use them, or in a fragment that they import.`,
  };
}
