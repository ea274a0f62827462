// What a session may pass to its tools (docs/reference/sessions.md#states), as one table: names with dots, each with a
// strict schema. The JSON Schemas that a harness is shown are made from these, so that every property says what it is for.

import { uuid } from '../internal/domain/uuid.ts';
import { toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { mapOf, parseOutside } from './parse.ts';
import { outsideInputs } from './tool-input-outside.ts';
import { page, said, word } from './tool-input-parts.ts';
import { secretDescription, secretName, secretValue } from './secret.ts';

const namePattern = /^[A-Za-z0-9_.-]{1,128}$/;
const nestingMax = 64;
const contextBytesMax = 64 * 1024;

const named = (what: string) =>
  v.pipe(v.string(), v.regex(namePattern, 'Expected 1 to 128 characters of A-Za-z0-9_.-'), v.description(what));
const sessionId = (what: string) =>
  v.pipe(v.string(), v.uuid('Expected the id of a session, a UUID'), v.toLowerCase(), v.description(what));

/** Levels of nesting, counted without recursion: what is too deep must not end the counting. */
function isShallow(value: unknown): boolean {
  let level: readonly unknown[] = [value];
  for (let depth = 0; depth <= nestingMax; depth += 1) {
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? Object.values(one) : []));
    if (level.length === 0) return true;
  }
  return false;
}
const object = (what: string, bytesMax = contextBytesMax) =>
  v.pipe(
    mapOf(v.string(), v.unknown()),
    v.check((value) => isShallow(value), `Expected at most ${nestingMax} levels of nesting`),
    v.check(
      (value) => !isShallow(value) || JSON.stringify(value).length <= bytesMax,
      `Expected at most ${bytesMax} bytes of JSON`,
    ),
    v.description(what),
  );

/** What names a thing of each type: how its events name it, so that a binding that nothing reaches is not made. */
const targetKeys = {
  'codehost.pull_request': /^(?!\.{1,2}\/)[\w.-]{1,100}\/(?!\.{1,2}#)[\w.-]{1,100}#[1-9]\d{0,17}$/,
  'codehost.issue': /^(?!\.{1,2}\/)[\w.-]{1,100}\/(?!\.{1,2}#)[\w.-]{1,100}#[1-9]\d{0,17}$/,
  'chat.thread': /^[\w.-]{1,100}:[\w.-]{1,200}:[\w.-]{1,200}:[\w.-]{1,200}$/,
  'tracker.issue': /^[\w-]{1,200}$/,
  'svc.session': uuid,
} as const;

const target = v.pipe(
  v.strictObject({
    type: v.pipe(
      v.picklist(['codehost.pull_request', 'codehost.issue', 'chat.thread', 'tracker.issue', 'svc.session']),
      v.description('What kind of thing the target is.'),
    ),
    key: word(
      'Which one: owner/repo#number for a pull request or an issue of the code host; ' +
        'provider:workspaceId:channelId:threadId for a chat thread; the issue id for the tracker; the session id for a session.',
      1_000,
    ),
  }),
  v.forward(
    v.check(
      ({ type, key }) => targetKeys[type].test(key),
      'Expected the key of a thing of that type, in the form that the description gives',
    ),
    ['key'],
  ),
  v.description('The thing whose events are meant. svc_bindings_targets shows the one that started this session.'),
);
const eventContext = v.pipe(
  v.strictObject({
    bound: v.optional(object('For the event that tells that the binding was made.')),
    updated: v.optional(object('For events that tell that the binding changed.')),
    unbound: v.optional(object('For the event that tells that the binding was released.')),
  }),
  v.description('Notes that binding events carry, by event; merged over those that the agent declares.'),
);

const none = v.strictObject({});
const checkName = named('Name of the check, as checks_list shows it.');
const checkEnd = v.strictObject({
  name: checkName,
  title: word('One line that says how it went; shown on the pull request.', 256),
  summary: word('What was found, in Markdown; shown on the pull request.', 65_535),
});

const issueRef = v.pipe(
  v.string(),
  v.regex(
    /^(?:[1-9][0-9]{0,18}|[A-Za-z0-9][A-Za-z0-9_-]{0,80}-[A-Za-z0-9]{1,20})$/,
    'Expected the id or short id of an issue',
  ),
  v.description('Id of the issue, or its short id such as API-12.'),
);

export const toolInputs = {
  'svc.session.get': none,
  'svc.agents.list': none,
  'svc.sessions.spawn': v.strictObject({
    agent: named('Name of the agent, as svc_agents_list shows it.'),
    message: said('What the new session is told first.'),
    input: v.optional(
      object('Data that the agent’s templates read as their payload, such as the ref of a mount.', 1_048_576),
    ),
    idempotencyKey: v.optional(
      word('Any text. Calls of this session with the same key spawn once; repeat it when you retry.', 256),
    ),
  }),
  'svc.sessions.list': v.strictObject({
    agent: v.optional(named('Only sessions of this agent.')),
    live: v.optional(v.pipe(v.boolean(), v.description('true: only live ones; false: only ended ones.'))),
    before: v.optional(sessionId('Only sessions made before this one: the last id of the page before.')),
    limit: page('Sessions'),
  }),
  'svc.sessions.get': v.strictObject({ sessionId: sessionId('Id of the session.') }),
  'svc.sessions.conversation': v.strictObject({
    sessionId: sessionId('Id of the session.'),
    after: v.optional(
      v.pipe(
        v.number(),
        v.integer('Expected a whole number'),
        v.minValue(0, 'Expected at least 0'),
        v.maxValue(Number.MAX_SAFE_INTEGER, 'Expected the seq of a message'),
        v.description('Only messages behind the one with this seq.'),
      ),
    ),
    limit: page('Messages'),
  }),
  'svc.sessions.message': v.strictObject({
    sessionId: sessionId('Id of a live session other than this one.'),
    text: said('What to say to it.'),
  }),
  'svc.sessions.stop': v.strictObject({
    sessionId: sessionId('Id of the session to stop; your own id stops yourself.'),
    reason: v.optional(said('Why, for whoever reads the session later.', 1_000)),
  }),
  'svc.bind': v.strictObject({
    target,
    context: v.optional(object('Notes kept on the binding; merged over those that the agent declares.')),
    eventContext: v.optional(eventContext),
  }),
  'svc.unbind': v.strictObject({
    target,
    context: v.optional(object('Notes for the event that tells of the release.')),
  }),
  'svc.bindings.list': v.strictObject({
    sessionId: v.optional(sessionId('Only bindings of this session.')),
    limit: page('Bindings'),
  }),
  'svc.bindings.targets': none,
  'svc.chat.subscribe': v.strictObject({
    key: v.optional(
      v.pipe(
        word(
          'The thread, as provider:workspaceId:channelId:threadId. Without: the thread that started this session.',
          1_000,
        ),
        v.check(
          (key) => targetKeys['chat.thread'].test(key),
          'Expected the key of a thread, in the form that the description gives',
        ),
      ),
    ),
  }),
  'svc.secrets.create': v.pipe(
    v.strictObject({
      name: v.pipe(secretName, v.description('Name of the secret.')),
      scope: v.optional(
        v.pipe(
          v.picklist(
            ['project'],
            'A session creates secrets of its own project only; those of an organization are people’s',
          ),
          v.description('Always project: the secret belongs to this project.'),
        ),
        'project',
      ),
      value: v.optional(v.pipe(secretValue, v.description('The value. Give this or generate, not both.'))),
      generate: v.optional(
        word(
          'Pattern of a random value that nobody is shown, such as [A-Za-z0-9]{32}: literals, character classes, \\d, \\w, ' +
            'groups, |, {n}, {n,m} and ?; no *, + or dot. Give this or value, not both.',
          1_024,
        ),
      ),
      overwrite: v.optional(
        v.pipe(
          v.boolean(),
          v.description(
            'true: replace a secret of this name, or shadow one of the organization. Else that is refused.',
          ),
        ),
        false,
      ),
      description: v.optional(v.pipe(secretDescription, v.description('What it is for; at most 1024 characters.'))),
    }),
    v.check(
      ({ value, generate }) => (value === undefined) !== (generate === undefined),
      'Give exactly one of value and generate',
    ),
  ),
  'svc.resources.get': v.strictObject({
    kind: v.pipe(v.picklist(['Agent', 'Environment', 'Identity']), v.description('Kind of the resource.')),
    name: named('Name of the resource.'),
  }),
  'svc.resources.dry_run': v.strictObject({
    files: v.pipe(
      v.array(
        v.strictObject({
          path: word('Path from the root of the tree, such as .svc/agents/reviewer.yaml.', 4_096),
          content: v.pipe(v.string(), v.description('The whole text of the file.')),
        }),
      ),
      v.minLength(1, 'Expected at least 1 file'),
      v.maxLength(200, 'Expected at most 200 files'),
      v.description('The files, fragments that they import included.'),
    ),
    prune: v.optional(
      v.pipe(v.boolean(), v.description('true: also show what would be deleted because no file declares it.')),
      false,
    ),
  }),
  'svc.webhooks.list': none,
  'svc.webhooks.get': v.strictObject({ name: named('Name of the endpoint.') }),
  'svc.webhooks.reserve': v.strictObject({ name: named('Name that the endpoint will have.') }),
  'svc.connections.list': none,
  'svc.usage.get': v.strictObject({
    of: v.optional(
      v.pipe(
        v.picklist(['session', 'agent', 'project']),
        v.description('Of this session, of all sessions of its agent, or of the whole project.'),
      ),
      'project',
    ),
  }),
  ping: none,
  list_projects: none,
  search_issues: v.strictObject({
    project: v.optional(
      word('Id or slug of the project, as list_projects shows it; may be left out where there is one.', 100),
    ),
    query: v.optional(word('What to look for, in the error tracker’s search syntax.', 1_000), 'is:unresolved'),
    sort: v.optional(
      v.pipe(v.picklist(['date', 'freq', 'new', 'user', 'recommended']), v.description('Which issues come first.')),
      'date',
    ),
    limit: v.optional(
      v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(100), v.description('Issues at most, 1 to 100.')),
      10,
    ),
    period: v.optional(
      v.pipe(v.picklist(['24h', '7d', '14d', '30d', '90d']), v.description('How far back to look.')),
      '30d',
    ),
  }),
  get_issue_details: v.strictObject({ issue: issueRef }),
  get_latest_event: v.strictObject({ issue: issueRef }),
  'checks.list': none,
  'checks.begin': v.strictObject({ name: checkName }),
  'checks.success': checkEnd,
  'checks.failure': checkEnd,
  ...outsideInputs,
} as const;
export type ToolName = keyof typeof toolInputs;
export type ToolInput<N extends ToolName> = v.InferOutput<(typeof toolInputs)[N]>;

export type ParsedInput<N extends ToolName> =
  | { readonly ok: true; readonly input: ToolInput<N> }
  /** `path: what is wrong` of each mistake. */
  | { readonly ok: false; readonly problems: readonly string[] };

/** Reads what a harness passed. No problem repeats a value or an undeclared key: it may be, or hold, a secret. */
export function parseToolInput<N extends ToolName>(name: N, given: unknown): ParsedInput<N> {
  const parsed = parseOutside(toolInputs[name] as v.GenericSchema, given ?? {});
  if (parsed.success) return { ok: true, input: parsed.output as ToolInput<N> };
  return { ok: false, problems: [...new Set(parsed.issues.map(problemOf))] };
}

function problemOf(issue: v.BaseIssue<unknown>): string {
  const steps = (issue.path ?? []).map((step) => String(step.key));
  // A key that no schema declares.
  if (issue.expected === 'never')
    return at(steps.slice(0, -1), 'unknown property; use only those that the schema lists');
  const isMissing = issue.kind === 'schema' && issue.input === undefined;
  if (isMissing) return at(steps, 'is required');
  if (!issue.message.startsWith('Invalid ')) return at(steps, issue.message);
  return at(steps, `expected ${issue.expected ?? 'something else'}, got ${kindOf(issue.input)}`);
}

const at = (steps: readonly string[], what: string): string =>
  steps.length === 0 ? what : `${steps.join('.')}: ${what}`;

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `another ${typeof value}`;
}

export interface InputSchema {
  readonly type: 'object';
  readonly [keyword: string]: unknown;
}

const schemas = new Map<ToolName, InputSchema>();
/** The JSON Schema of a tool's input, as a harness is shown it. */
export function toolInputSchema(name: ToolName): InputSchema {
  const known = schemas.get(name);
  if (known !== undefined) return known;
  const { $schema: _, ...made } = toJsonSchema(toolInputs[name], {
    typeMode: 'input',
    ignoreActions: ['check', 'to_lower_case'],
  });
  const schema = { ...plain(made), type: 'object' } as InputSchema;
  schemas.set(name, schema);
  return schema;
}

/** Without `propertyNames`, which says nothing here and which not every model provider takes. */
function plain(schema: object): object {
  const kept = Object.entries(schema).filter(([keyword]) => keyword !== 'propertyNames');
  return Object.fromEntries(
    kept.map(([keyword, value]) => [
      keyword,
      typeof value === 'object' && value !== null && !Array.isArray(value) ? plain(value) : value,
    ]),
  );
}
