// Words and forms that stay out of the sources, with the places where they may stand all the same.

/** Tools that measure, check and describe the whole: they wire what they need, as cmd does, and nobody imports them but cmd. */
export const TOOLS = ['internal/bench/', 'internal/harness-check/', 'internal/reference/'];

export interface WordRule {
  readonly name: string;
  readonly pattern: RegExp;
  /** Path prefixes where it may stand. */
  readonly allowed: readonly string[];
  readonly inTests: boolean;
  readonly message: string;
}
/** Names that stood for something by a metaphor, and what they are called now; docs/glossary.md has the words in use. */
const RETIRED = {
  Desk: 'CodehostCall, TrackerConnection, RoutingContext',
  Flood: 'TooManyErrors',
  Gate: 'Semaphore',
  Hearing: 'AnswerListener',
  KeyQuarrel: 'KeyConflict',
  LargeRoom: 'ByteSemaphore',
  Ladder: 'FetchStrategy',
  LadderOptions: 'FetchStrategyOptions',
  LayerWorld: 'LayerContext',
  MapSpot: 'MapRef',
  Money: 'ModelBudget',
  PATIENCE: 'podTimeouts',
  Patience: 'PodTimeouts',
  NotOurs: 'LostOwnership',
  Rung: 'FetchStrategy',
  Spot: 'NodeRef',
  StandAside: 'RunConflict',
  Standing: 'LiveSession',
  SteadyPool: 'RetryingPool',
  TargetStanding: 'TargetSession',
  Tied: 'attribution',
  TieInsert: 'AttributionInsert',
  ToolWorld: 'ToolContext',
  TrackerDesk: 'TrackerConnection',
  Trail: 'PathChain',
  Undo: 'Rollback',
  lookAtAll: 'scheduleAll',
  openMoney: 'openModelRoute',
  roomForDelivery: 'reserveBodyBytes',
} as const;

export const WORDS: readonly WordRule[] = [
  {
    name: 'retired',
    pattern: new RegExp(`\\b(?:class|interface|type|function|const|let) (?:${Object.keys(RETIRED).join('|')})\\b`),
    allowed: [],
    inTests: true,
    message: `a retired name; write instead: ${JSON.stringify(RETIRED)}`,
  },
  {
    name: 'clock',
    pattern: /\bDate\.now\(|\bnew Date\(\)/,
    // A page shows how long ago something was: nobody else is in the browser to tell it the time.
    allowed: ['cmd/', 'internal/base/', 'internal/edge/web/client/', ...TOOLS],
    inTests: true,
    message: 'time is passed in as `now`',
  },
  {
    name: 'randomness',
    pattern: /\bMath\.random\(/,
    allowed: [...TOOLS, 'internal/base/testkit/'],
    inTests: false,
    message: 'randomness is passed in, and a test seeds it',
  },
  {
    name: 'environment',
    pattern: /\bprocess\.(env|argv)\b|\bprocess\.on\(|\bprocess\.exit\(/,
    allowed: ['cmd/', 'internal/base/testkit/', ...TOOLS],
    inTests: true,
    message: 'only cmd reads the environment, the arguments and signals',
  },
  {
    name: 'linux',
    pattern:
      /[`'" ]\/proc\/|\/sys\/(?:fs|class|kernel)\/|\/dev\/shm|\b(?:sha256sum|setsid|stat -c|sort=name|grep -\w*[zP]\w*) |\bapt-get /,
    // Each has a way for a system without: what cannot be read is taken for not told, and another command stands beside.
    allowed: [
      'internal/base/process-identity.ts',
      'internal/adapters/postgres/',
      'internal/adapters/sandbox/',
      'internal/adapters/engine/',
      'internal/flows/session-host/leavings.ts',
      'internal/base/testkit/',
      'internal/flows/session-host/host-crash-testkit.ts',
      'schemas/environment.ts',
      ...TOOLS,
    ],
    inTests: true,
    message: 'only Linux has it: macOS is a place too',
  },
  {
    name: 'citation',
    pattern: /\((?:contract|decisions?|design|spec), (?:section|[A-Z"`0-9])/,
    allowed: [],
    inTests: false,
    message: 'cite a page of docs/reference, with its anchor',
  },
  {
    name: 'run-at-end',
    pattern: /\.replace(?:All)?\(\/(?:[^/\n]*\|)?(?:\[[^\]]*\]|\\?.)[+*]\$\//,
    allowed: [...TOOLS, 'internal/edge/web/client/'],
    inTests: true,
    message: 'takes the square of the length of a run that is not at the end: withoutEnd (domain/text-end.ts) does not',
  },
  {
    name: 'debt',
    pattern: /\b(TO[D]O|FIX[M]E|XX[X]|HAC[K])\b/,
    allowed: [],
    inTests: false,
    message: 'finish it or write an issue',
  },
  {
    name: 'silenced',
    pattern: /@ts-(ignore|nocheck|expect-error)|\b(test|it|describe)\.(skip|only|todo)\(|\bskip: true\b/,
    allowed: [],
    inTests: false,
    message: 'no silenced checks and no skipped tests',
  },
  {
    name: 'private',
    pattern: /^\s+(?:private|protected) (?!constructor\b)(?:static |readonly |async |get |set )*\w+[:=(<!? ;]/,
    allowed: [],
    inTests: false,
    message: 'what is private is called #name',
  },
  {
    name: 'constant',
    pattern:
      /^(?:export )?const [A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*(?:: (?:number|string|boolean))? = (?:-?[\d][\w. *+()/-]*|'[^']*'|"[^"]*"|true|false);$/,
    // Named as the kernel names them.
    allowed: ['internal/adapters/sandbox/seccomp.ts'],
    inTests: false,
    message: 'a number or a text is called like anything else, its unit last: bodyBytesMax',
  },
  {
    name: 'default-export',
    pattern: /^export default\b|^export \* from\b/,
    allowed: [],
    inTests: false,
    message: 'named exports only, and no barrels',
  },
];
