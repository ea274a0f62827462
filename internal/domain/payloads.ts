// What the payload of each event holds (docs/reference/events.md#payloads), as paths: for warnings about paths that no
// payload has, and for the reference. A path whose parts the provider or the author chooses is open: anything may follow.

import { canonicalEventKey, sourceOf } from './events.ts';

/** Paths below one another: `head.ref` names `head` too. `*` behind a path: it is a list or open, anything may follow. */
const paths = (prefix: string, names: string): readonly string[] =>
  names.split(' ').map((name) => (prefix === '' ? name : `${prefix}.${name}`));

const svc = paths('svc', 'authored attributions.*');
const repository = paths('codehost.repository', 'id fullName owner name private defaultBranch htmlUrl');
const codehost = [
  ...paths('codehost', 'event action deliveryId installationId sender.id sender.login sender.type'),
  ...repository,
  ...paths('codehost.svc', 'authored externalBot mentioned previous.mentioned'),
  ...svc,
  'raw.*',
];
const comment = 'id body htmlUrl author attachments.* previous.body';
const written = 'number title body state htmlUrl author labelNames.*';
/** A pull request as an issue tells of it: without its branches. */
const pullAsIssue = paths('codehost.pullRequest', `${written} draft`);
const pullRequest = [
  ...pullAsIssue,
  ...paths('codehost.pullRequest', 'merged mergeable head.ref head.sha head.repositoryFullName base.ref base.sha'),
];
/** What changed is told by the events of what changed alone. */
const pullBefore = paths(
  'codehost.pullRequest',
  'head.previous.sha base.previous.ref base.previous.sha ' +
    'previous.title previous.body previous.state previous.merged previous.draft previous.mergeable',
);
const issue = paths('codehost.issue', `${written} assigneeLogins.*`);
const issueBefore = paths('codehost.issue', 'previous.title previous.body previous.state');
const checkRun =
  'id name status conclusion headSha headIsCurrent htmlUrl pullRequestNumbers.* requestedAction.identifier';
const run = 'id name status conclusion headSha headBranch htmlUrl';
const tracker = [
  ...paths('tracker', 'action actor.id actor.name actor.type'),
  ...paths(
    'tracker.issue',
    'id identifier title description url state stateType priority labelNames.* assignee teamKey projectName',
  ),
  ...svc,
  'svc.mentioned',
  'raw.*',
];
const chat = [...paths('chat', 'provider workspaceId channelId threadId messageId'), ...svc, 'raw.*'];
const message = paths(
  'message',
  'id text author.userId author.userName author.isBot author.isMe attachments.* previous.text',
);
const binding = [
  ...paths('binding', 'id target.type target.key agent sessionId lifecycle continuity context.* eventContext.*'),
  'svc.*',
];
const apply = [
  ...paths('apply', 'operationId auditAction repository commit plan.* request.* error.name error.message'),
  'svc.*',
];
const errtrack = [
  ...paths('errtrack', 'action connection organization.slug project.id project.slug'),
  ...paths('errtrack.issue', 'id shortId title culprit level status permalink firstSeen lastSeen count assignedTo.*'),
  ...paths('errtrack', 'release.version commit.id commit.repository'),
  ...svc,
  'raw.*',
];

/** By the beginning of the key; the first row that fits decides. */
const rows: readonly (readonly [prefix: string, paths: readonly string[]])[] = [
  ['codehost.pull_request.', [...codehost, ...pullRequest, ...pullBefore, 'codehost.label.name']],
  ['codehost.issue.comment.', [...codehost, ...issue, ...paths('codehost.issueComment', comment)]],
  ['codehost.issue.', [...codehost, ...issue, ...issueBefore, 'codehost.label.name']],
  ['codehost.issue_comment.', [...codehost, ...pullAsIssue, ...paths('codehost.issueComment', comment)]],
  [
    'codehost.review.',
    [...codehost, ...pullRequest, ...paths('codehost.review', 'id state body htmlUrl author attachments.*')],
  ],
  [
    'codehost.pull_request_review_comment.',
    [...codehost, ...pullRequest, ...paths('codehost.reviewComment', `${comment} path line inReplyToId`)],
  ],
  [
    'codehost.check_run.',
    [
      ...codehost,
      ...paths('codehost.pullRequest', 'number head.ref head.sha base.ref base.sha'),
      ...paths('codehost.checkRun', checkRun),
    ],
  ],
  ['codehost.workflow_run.', [...codehost, ...paths('codehost.workflowRun', run)]],
  [
    'codehost.push',
    [...codehost, ...paths('codehost.push', 'ref branch before after created deleted forced commits.*')],
  ],
  ['codehost.commit_comment.', [...codehost, ...paths('codehost.commitComment', `${comment} commitId path line`)]],
  ['tracker.issue.', [...tracker, ...paths('tracker', 'updatedFrom.* issue.previous.*')]],
  ['tracker.comment.', [...tracker, ...paths('tracker.comment', 'id body url author parentId')]],
  ['chat.message.', [...chat, ...message]],
  [
    'chat.reaction.',
    [
      ...chat,
      ...paths('reaction', 'emoji rawEmoji added user.userId user.userName user.isMe'),
      ...paths('message', 'id author.userId author.userName author.isMe'),
    ],
  ],
  ['svc.session.binding.', binding],
  ['svc.project_resource_apply.', apply],
  ['svc.errtrack.issue.', errtrack],
];
/** The payload of a heartbeat's tick (docs/reference/schedules.md#ticks). */
const tick = ['trigger', ...paths('heartbeat', 'scheduleId agentResourceId triggerOrdinal scheduledAt')];

/** Roots of payloads, by which a path is told from one of a caller's own input. */
const roots: ReadonlySet<string> = new Set(['codehost', 'tracker', 'chat', 'errtrack', 'heartbeat', 'binding']);

/** Every path of the payload of an event, `*` behind those that are open; null where anything may stand (webhooks). */
export function payloadPaths(event: string): readonly string[] | null {
  const key = canonicalEventKey(event);
  if (sourceOf(key) === 'webhook') return null;
  return rows.find(([prefix]) => key.startsWith(prefix))?.[1] ?? null;
}

/** Every row of the table, with the tick of a heartbeat, for the reference. */
export const payloadRows = (): readonly (readonly [prefix: string, paths: readonly string[]])[] => [
  ...rows,
  ['heartbeat', tick],
];

/** Every path of the payload of a heartbeat. */
export const tickPaths = (): readonly string[] => tick;

interface Indexed {
  readonly known: Set<string>;
  readonly open: Set<string>;
  readonly roots: Set<string>;
}
const knownPaths = new Map<readonly string[], Indexed>();

function indexOf(list: readonly string[]): Indexed {
  const kept = knownPaths.get(list);
  if (kept !== undefined) return kept;
  const [known, open, roots] = [new Set<string>(), new Set<string>(), new Set<string>()];
  for (const path of list) {
    const isOpen = path.endsWith('.*');
    const segments = (isOpen ? path.slice(0, -2) : path).split('.');
    for (let end = 1; end <= segments.length; end++) known.add(segments.slice(0, end).join('.'));
    if (isOpen) open.add(segments.join('.'));
    roots.add(segments[0] ?? '');
  }
  const made = { known, open, roots };
  knownPaths.set(list, made);
  return made;
}

/** True where a payload with these paths may have a value at `path`. */
export function mayHave(list: readonly string[], path: string): boolean {
  const { known, open } = indexOf(list);
  if (known.has(path)) return true;
  for (let dot = path.indexOf('.'); dot !== -1; dot = path.indexOf('.', dot + 1))
    if (open.has(path.slice(0, dot))) return true;
  return false;
}

/** Every path that has a name of its own in these payloads, without the mark of the open ones. */
export const namedPaths = (list: readonly string[]): Iterable<string> => indexOf(list).known;

/** What the paths of these payloads begin with. */
export const rootsOf = (list: readonly string[]): ReadonlySet<string> => indexOf(list).roots;

/** Every path of every event, where the event is not known; null for a path that no event's payload could begin. */
export function anywhere(path: string): readonly string[] | null {
  return roots.has(path.split('.', 1)[0] ?? '') ? all : null;
}
const all: readonly string[] = [...new Set([...rows.flatMap(([, list]) => list), ...tick])];
