// What svcd.hostile.fuzz.test.ts sends: by door, the name of each input and how it is made, of about the size that its door takes.

import { hook } from '../../internal/flows/routing/routing-testkit.ts';

export const mebibyte = 1_048_576;
const object = (text: string): string => `{"a":${text}}`;
export const filled = (unit: string, bytes = mebibyte - 2_000): string =>
  unit.repeat(Math.floor(bytes / Buffer.byteLength(unit)));
export const listOf = (unit: string, bytes = mebibyte - 2_000): string => `[${filled(`${unit},`, bytes)}0]`;

type Made = () => string;

/** Bodies of a webhook, up to a mebibyte, each an object. */
export const payloads: { readonly [what: string]: Made } = {
  'one long text': () => object(`"${filled('z')}"`),
  'one long text of lines': () => object(`"${filled('z\\n')}"`),
  'one long text of lines that say nothing': () => object(`"${filled('-\\n')}"`),
  'one long text of tokens': () => object(`"${filled('{{a}}')}"`),
  'one long text of braces': () => object(`"${filled('{')}"`),
  'one long text of characters beyond the plane': () => object(`"${filled('😀')}"`),
  'one long text of escapes': () => object(`"${filled('\\u0000')}"`),
  'one long text of quotes': () => object(`"${filled('\\"')}"`),
  'one long text of mentions': () => object(`"${filled('@x ')}"`),
  'many keys': () => `{"a":"x"${Array.from({ length: 70_000 }, (_, at) => `,"k${at}":${at}`).join('')}}`,
  'many keys below': () => object(`{"b":0${Array.from({ length: 70_000 }, (_, at) => `,"k${at}":${at}`).join('')}}`),
  'a list of numbers': () => object(listOf('0')),
  'a list of lists': () => object(listOf('[]')),
  'a list of objects': () => object(listOf('{"b":0}')),
  'a list of texts': () => object(listOf('"x"')),
  'a list of big numbers': () => object(listOf('1e999')),
  'one number of a million digits': () => object('9'.repeat(mebibyte - 2_000)),
  'sixty levels of everything': () => `${'{"a":'.repeat(60)}${listOf('0', mebibyte - 4_000)}${'}'.repeat(60)}`,
  'a key of a mebibyte': () => `{"${filled('k')}":1}`,
  'a long name of the event': () => `{"event":"${'e'.repeat(512)}","a":"${filled('y', mebibyte - 5_000)}"}`,
};

interface Template {
  readonly routing?: object;
  readonly trigger?: object;
  readonly agent?: object;
}

const many = '{{a}}'.repeat(300);

const hooks = (name: string, count: number, message: string): object[] =>
  Array.from({ length: count }, () => hook(name, { kind: 'spawn' }, { message }));

/** Agents, each with an endpoint of its name. */
export const templates: { readonly [name: string]: Template } = {
  plain: { trigger: { message: '{{a}}' } },
  many: { trigger: { message: `X\n${many}` } },
  thousands: { trigger: { message: '{{a}}'.repeat(4_000) } },
  paths: { trigger: { message: `{{${'a.'.repeat(60)}a}}`.repeat(150) } },
  deliver: { routing: { kind: 'deliver' }, trigger: { message: many }, agent: { concurrency: 1 } },
  prompted: { agent: { initialPrompt: many }, trigger: { attachedUserPrompt: many } },
  titled: { agent: { displayTitle: '{{a}}', triggers: hooks('titled', 100, 'x') } },
  inferred: { agent: { displayTitle: 'infer', triggers: hooks('inferred', 100, '{{a}}') } },
  filtered: {
    trigger: {
      where: {
        '$.a': { in: Array.from({ length: 900 }, (_, at) => `value-${at}`) },
        '$.b': { notIn: Array.from({ length: 900 }, (_, at) => at) },
        '$.a.b': { contains: 'x' },
      },
    },
  },
};

/** Provider and type of a delivery, from the beginning of its name. */
export function deliveryTypes(what: string): {
  readonly provider: 'codehost' | 'tracker' | 'chat';
  readonly event: string;
} {
  if (what.startsWith('a push')) return { provider: 'codehost', event: 'push' };
  if (what.startsWith('a comment')) return { provider: 'codehost', event: 'issue_comment' };
  if (what.startsWith('a pull request')) return { provider: 'codehost', event: 'pull_request' };
  if (what.startsWith('an unknown event')) return { provider: 'codehost', event: 'star' };
  return { provider: what.startsWith('an issue') ? 'tracker' : 'chat', event: '' };
}

const repository = {
  id: 1,
  full_name: 'o/r',
  name: 'r',
  owner: { login: 'o', id: 2, type: 'User' },
  default_branch: 'main',
};
const sender = { login: 'ann', id: 1, type: 'User' };
const json = (value: unknown) => (): string => JSON.stringify(value);
const text = (bytes: number, unit = 'z'): string => filled(unit, bytes);
const commit = (at: number, size: number): object => ({
  id: String(at).padStart(40, '0'),
  message: 'm'.repeat(size),
  author: { name: 'a', email: 'a@b.example', username: 'a' },
  added: [],
  removed: [],
  modified: [],
});
const comment = (body: string): object => ({
  action: 'created',
  repository,
  sender,
  issue: { number: 1, title: 't', body: null, state: 'open', user: sender, labels: [], assignees: [] },
  comment: { id: 9, body, user: sender, html_url: 'https://h.example/c' },
});
const pull = (more: object): object => ({
  action: 'opened',
  repository,
  sender,
  pull_request: {
    number: 1,
    title: 't',
    body: 'b',
    state: 'open',
    user: sender,
    labels: [],
    head: { ref: 'h', sha: 'a'.repeat(40), repo: repository },
    base: { ref: 'main', sha: 'b'.repeat(40), repo: repository },
    ...more,
  },
});
let deliveries = 0;
const slack = (event: object) => (): string =>
  JSON.stringify({
    type: 'event_callback',
    team_id: 'T1',
    event_id: `Ev${(deliveries += 1)}`,
    event: { type: 'app_mention', user: 'U1', channel: 'C1', ts: '1.1', ...event },
  });
const linear = (data: object) => (): string =>
  JSON.stringify({
    action: 'create',
    type: 'Issue',
    webhookTimestamp: Date.now(),
    webhookId: 'w',
    organizationId: 'o',
    createdAt: new Date().toISOString(),
    actor: { id: 'u', name: 'n', type: 'user' },
    data: { id: 'i', identifier: 'A-1', title: 't', team: { key: 'A' }, labels: [], url: 'https://h.example', ...data },
  });

/** Deliveries of providers, as large as their doors take: 25 MiB of a code host, 5 of a tracker, 4 of chat. */
export const deliveriesTable: { readonly [what: string]: Made } = {
  'a push of 24 MiB in commits': json({
    ref: 'refs/heads/main',
    before: '0'.repeat(40),
    after: 'a'.repeat(40),
    repository,
    sender,
    commits: Array.from({ length: 2_000 }, (_, at) => commit(at, 12_000)),
  }),
  'a push from an address of very many slashes': json({
    ref: 'refs/heads/main',
    before: '0'.repeat(40),
    after: 'a'.repeat(40),
    repository: { ...repository, clone_url: `https://h.example/o/r${'/'.repeat(900_000)}x` },
    sender,
    commits: [],
  }),
  'a push of very many small commits': json({
    ref: 'refs/heads/main',
    before: '0'.repeat(40),
    after: 'a'.repeat(40),
    repository,
    sender,
    commits: Array.from({ length: 40_000 }, (_, at) => commit(at, 400)),
  }),
  'a push of very many names of files': json({
    ref: 'refs/heads/main',
    before: '0'.repeat(40),
    after: 'a'.repeat(40),
    repository,
    sender,
    commits: [{ ...commit(1, 1), added: Array.from({ length: 250_000 }, (_, at) => `f${at}`) }],
  }),
  'a push of too many values': json({
    ref: 'refs/heads/main',
    before: '0'.repeat(40),
    after: 'a'.repeat(40),
    repository,
    sender,
    commits: Array.from({ length: 130_000 }, (_, at) => commit(at, 1)),
  }),
  'a push of too many lists': () => `{"ref":"refs/heads/main","commits":${listOf('[]', 24 * mebibyte)}}`,
  'a comment of 24 MiB beyond Latin': json(comment(`ф${text(24 * mebibyte)}`)),
  'a comment of 24 MiB of escapes': json(comment(text(12 * mebibyte, '\n'))),
  'a comment of 24 MiB': json(comment(text(24 * mebibyte))),
  'a comment of 24 MiB of mentions': json(comment(text(24 * mebibyte, '@svc-app '))),
  'a comment of 24 MiB of markers': json(comment(text(24 * mebibyte, '<!-- svc:v=1 session= agent= -->'))),
  'a comment of 24 MiB of open markers': json(comment(text(24 * mebibyte, '<!-- svc:v=1 '))),
  'a comment of 24 MiB of pictures': json(comment(text(24 * mebibyte, '![a](https://h.example/a.png)'))),
  'a comment of 24 MiB of open brackets': json(comment(text(24 * mebibyte, '!['))),
  'a pull request of very many labels': json(
    pull({ labels: Array.from({ length: 160_000 }, (_, at) => ({ id: at, name: `l${at}` })) }),
  ),
  'a pull request of 24 MiB': json(pull({ body: text(15 * mebibyte, 'x\n') })),
  'an unknown event of 24 MiB': json({ action: 'created', repository, sender, more: text(24 * mebibyte) }),
  'an unknown event of too many lists': () => `{"action":"created","a":${listOf('[]', 24 * mebibyte)}}`,
  'an issue of 4.9 MiB': linear({ description: text(4.9 * mebibyte) }),
  'an issue of many labels': linear({
    labels: Array.from({ length: 120_000 }, (_, at) => ({ id: `${at}`, name: `l${at}` })),
  }),
  'chat of 3.9 MiB': slack({ text: text(3.9 * mebibyte) }),
  'chat of mentions': slack({ text: text(3.9 * mebibyte, '<@U1> ') }),
  'chat of open brackets': slack({ text: text(3.9 * mebibyte, '<') }),
};

interface TreeFile {
  readonly path: string;
  readonly content: string;
}
const agent = (name: string, more = ''): TreeFile => ({
  path: `.svc/agents/${name}.yaml`,
  content: `name: ${name}\nharness: harness-a\nenvironment: {name: default, image: {kind: preset, name: base}}\n${more}`,
});

/** Three thousand agents, each with ten kilobytes of its own that are stored. */
export const manyPrompts = (): TreeFile[] =>
  Array.from({ length: 3_000 }, (_, at) =>
    agent(`p${at}`, `systemPrompt: |\n${`  line ${at} of text that says little\n`.repeat(280)}`),
  );

/** Trees of the repository, up to what a door takes. */
export const trees: { readonly [what: string]: () => TreeFile[] } = {
  aliases: () => {
    const levels = Array.from({ length: 9 }, (_, at) => `  - &a${at + 1} [${`*a${at},`.repeat(9)}]\n`).join('');
    return [agent('bomb', `variables:\n  - &a0 [x]\n${levels}`)];
  },
  'three thousand agents of ten kilobytes': () =>
    Array.from({ length: 3_000 }, (_, at) =>
      agent(`a${at}`, `instructions: |\n${`  line of text that says little\n`.repeat(330)}`),
    ),
  'thirty thousand small agents': () => Array.from({ length: 30_000 }, (_, at) => agent(`s${at}`)),
  'sixty files of a mebibyte of nodes': () =>
    Array.from({ length: 40 }, (_, at) => agent(`n${at}`, `x: [${'a,'.repeat(140_000)}b]\n`)),
  'forty files of a mebibyte of text': () =>
    Array.from({ length: 40 }, (_, at) => agent(`t${at}`, `instructions: "${'x'.repeat(mebibyte - 2_000)}"\n`)),
  'files that are all wrong': () =>
    Array.from({ length: 5_000 }, (_, at) => ({
      path: `.svc/agents/w${at}.yaml`,
      content: `name: [${'x'.repeat(4_000)}\n: :\n`,
    })),
  'one agent of ten thousand mistakes': () => [
    agent('m', Array.from({ length: 10_000 }, (_, at) => `unknown-${at}: ${'v'.repeat(60)}\n`).join('')),
  ],
  'an agent of ten thousand triggers': () => [
    agent('tr', `triggers:\n${'  - {event: codehost.push, connection: hub, routing: {kind: spawn}}\n'.repeat(9_900)}`),
  ],
  'a chain of imports': () => [
    agent('chain', 'imports: [../parts/p0.yaml]\n'),
    ...Array.from({ length: 999 }, (_, at) => ({
      path: `.svc/parts/p${at}.yaml`,
      content: at === 998 ? 'instructions: x\n' : `imports: [p${at + 1}.yaml]\ninstructions: ${'y'.repeat(10_000)}\n`,
    })),
  ],
  'imports of everything by everything': () => [
    ...Array.from({ length: 60 }, (_, at) =>
      agent(`all${at}`, `imports: [${Array.from({ length: 300 }, (__, of) => `../parts/q${of}.yaml`).join(', ')}]\n`),
    ),
    ...Array.from({ length: 300 }, (_, at) => ({
      path: `.svc/parts/q${at}.yaml`,
      content: `tools:\n${Array.from({ length: 40 }, (__, of) => `  t${at}-${of}: {kind: local, implementation: ping}\n`).join('')}`,
    })),
  ],
  'a prompt of variables': () => [
    agent('vars', `variables: {v: ${'x'.repeat(10_000)}}\ninstructions: "${'{{ $v }}'.repeat(100_000)}"\n`),
  ],
  'one line of a mebibyte': () => [{ path: '.svc/agents/l.yaml', content: `{${'"a":1,'.repeat(140_000)}` }],
  'open brackets': () => [{ path: '.svc/agents/o.yaml', content: '['.repeat(mebibyte - 10) }],
  'blank lines': () => [{ path: '.svc/agents/b.yaml', content: '\n'.repeat(mebibyte - 10) }],
  'a text in quotes without an end': () => [{ path: '.svc/agents/q.yaml', content: `name: "${'x '.repeat(500_000)}` }],
  'a hundred thousand names': () =>
    Array.from({ length: 100_000 }, (_, at) => ({ path: `.svc/files/${at}.txt`, content: 'x' })),
};

/** Bodies of an apply, as large as its door takes, that are no tree. */
export const bodies: { readonly [what: string]: Made } = {
  'a body of too many lists': () => `{"files":${listOf('[]', 60 * mebibyte)}}`,
  'a body of too many numbers': () => `{"files":${listOf('0', 60 * mebibyte)}}`,
  'a body that nests': () => `{"files":${filled('[', 60 * mebibyte)}`,
  'a body of one text': () => `{"files":"${text(60 * mebibyte)}"}`,
  'a file of 60 MiB': () =>
    `{"files":[{"path":".svc/agents/a.yaml","content":"${text(60 * mebibyte)}"}],"dryRun":true}`,
  'files of 60 MiB of plain text': () => filesOf(`a line of text that says \\"little\\"\\n`),
  'files of 60 MiB beyond Latin': () => filesOf('ф 😀 a line of text that says little\\n'),
  'files of 60 MiB of escapes': () => filesOf('\\u0436\\ud83d\\ude00\\n'),
  // Looking for the padding at an end must not begin anew at each sign of it.
  'a file of padding in base64': () =>
    `{"files":[{"path":".svc/files/p","content":"TWFu${'='.repeat(900_000)}A","encoding":"base64"}],"dryRun":true}`,
  'files of 60 MiB in base64': () => filesOf('TWFu', ',"encoding":"base64"'),
};

/** Of a megabyte each, in JSON; dry. */
function filesOf(unit: string, more = ''): string {
  const content = filled(unit, 1_000_000);
  const file = (at: number): string => `{"path":".svc/files/f${at}.md","content":"${content}"${more}}`;
  return `{"files":[${Array.from({ length: 62 }, (_, at) => file(at)).join(',')}],"dryRun":true}`;
}
