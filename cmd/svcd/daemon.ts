// The daemon's wiring: database → first rows → jobs → HTTP → services, and the same backwards. Nothing is decided here.

import { randomBytes, randomUUID } from 'node:crypto';
import { checkAddresses } from '../../internal/adapters/store/schema/address.ts';
import { pendingMigrations } from '../../internal/adapters/store/schema/migrate.ts';
import { lackOfRoom } from '../../internal/adapters/store/schema/room.ts';
import { isReadOnly, ping } from '../../internal/adapters/store/schema/server.ts';
import { installationId, sealedVersions } from '../../internal/adapters/store/tenancy/bootstrap.ts';
import { type Database, errorCode, isDriversWord } from '../../internal/adapters/store/store.ts';
import { routeTask } from '../../internal/adapters/store/events/events.ts';
import { DataDirInUse, openStore, type Store } from './database.ts';
import { chatSettings } from '../../internal/base/config/chat-settings.ts';
import { codehostSettings } from '../../internal/base/config/codehost-settings.ts';
import { type Config, ConfigError } from '../../internal/base/config/config.ts';
import { notificationSettings } from '../../internal/base/config/notification-settings.ts';
import { modelSettings } from '../../internal/base/config/model-settings.ts';
import { checkSections } from '../../internal/base/config/sections.ts';
import { sessionSettings } from '../../internal/base/config/session-settings.ts';
import { armFailpoint, failpoint } from '../../internal/base/failpoint.ts';
import { createMetrics } from '../../internal/base/metrics/metrics.ts';
import type { Runtime } from '../../internal/base/runtime.ts';
import { createEgressRoutes } from '../../internal/edge/egress/egress.ts';
import { createGitRoutes } from '../../internal/edge/gitproxy/gitproxy.ts';
import { startModelGateway } from '../../internal/edge/gateway/gateway.ts';
import { type HttpServer, startHttp } from '../../internal/edge/http/http.ts';
import type { Readiness } from '../../internal/edge/http/readiness.ts';
import { hostRoutes, routes } from '../../internal/edge/http/routes.ts';
import { createMcpEndpoint, type McpEndpoint } from '../../internal/edge/mcp/mcp.ts';
import { createWebRoom } from '../../internal/edge/web/web.ts';
import { JobRunner } from '../../internal/edge/jobs/jobs.ts';
import { services } from '../../internal/edge/jobs/services.ts';
import { tasks } from '../../internal/edge/jobs/tasks.ts';
import { findCodehostStep } from '../../internal/flows/broker/broker.ts';
import { findChatStep } from '../../internal/flows/chat/chat.ts';
import { findWebhookStep } from '../../internal/flows/notify/notify.ts';
import { findTrackerStep } from '../../internal/flows/tracker/tracker.ts';
import { conditionsList } from '../../internal/domain/notification.ts';
import type { FlowContext, OutboxPorts } from '../../internal/flows/context.ts';
import { startIngest } from '../../internal/flows/ingest/ingest.ts';
import { codehostChecks } from '../../internal/flows/plans/plans.ts';
import { startAppliedImpacts } from '../../internal/flows/sync/sync.ts';
import { bootstrap, type Client, recoverClient } from '../../internal/flows/tenancy/tenancy.ts';
import { Fault } from '../../internal/domain/fault.ts';
import { SharedClock } from '../../internal/base/clock.ts';
import { serverTime } from '../../internal/adapters/store/operations/clock.ts';
import { checkKeyFile, ensureMasterKey, readClient, writeClient } from './files.ts';
import { openKeyGate } from './keys.ts';
import { startPorts } from './ports.ts';
import { openHostPorts } from './session-host.ts';
import { Stops } from './stops.ts';

const learnMs = 10_000;
/** A machine that is off by so much should be set right: its log is. */
const tellOffMs = 2_000;
/**
 * How long a daemon that stops waits for a database that says nothing, and for an answer that another's lock may hold up:
 * first, and in all.
 */
const databaseMs = { look: 500, silent: 5_000, first: 8_000, all: 20_000 } as const;
/** From then on for a part of the time that is left, however many wait one behind the other, and at least for so long. */
const answersLeft = { part: 1 / 4, leastMs: 200 } as const;

export interface Daemon {
  readonly url: string;
  readonly ctx: FlowContext;
  /** Resolves when work is taken: at once, unless the master keys are not right and a person has to act. */
  readonly ready: Promise<void>;
  /** Resolves when the daemon cannot go on, with the reason. */
  readonly failed: Promise<Error>;
  /** Drains: no new work, running work ends or is handed back, the database last. Safe twice. */
  stop(): Promise<void>;
  /** Which part the stop waits for; undefined while there is none. */
  waitsFor(): string | undefined;
}

export interface DaemonOptions {
  readonly config: Config;
  readonly log: Runtime['log'];
  /** Overrides for tests. */
  readonly runtime?: Partial<Runtime>;
  /** For tests: the machine's clock, in milliseconds, which may be off. */
  readonly machineMs?: () => number;
  /** In a test process: no process-wide metrics, nothing forced to disk. */
  readonly test?: boolean;
}

/** Starts everything; resolves when the daemon serves. What has been started is stopped again when a later part fails. */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const stops = new Stops();
  let stopping: Promise<void> | undefined;
  const stop = (): Promise<void> => stops.run(options.log);
  try {
    const { leave, ...parts } = await startParts(options, stops);
    const end = async (): Promise<void> => {
      // Before anything stops: what is in hand may take seconds, in which no more should be sent here.
      leave();
      const unbound = boundDatabase(parts.ctx.db, options.log);
      await stop();
      unbound();
    };
    return { ...parts, stop: () => (stopping ??= end()), waitsFor: () => stops.now };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Has nobody wait for the database where that holds the stop up; what is under way there ends as when this process is killed. */
function boundDatabase(db: Database, log: Runtime['log']): () => void {
  const begun = performance.now();
  let heardAt = begun;
  const look = (): void => {
    const silentMs = performance.now() - heardAt;
    if (silentMs > databaseMs.silent) {
      clearInterval(timer);
      log.warn({ silentMs: Math.round(silentMs) }, 'daemon.database_abandoned');
      return db.abandon();
    }
    const { first, all } = databaseMs;
    const leftMs = begun + all - performance.now();
    const { part, leastMs } = answersLeft;
    db.refuseLate(leftMs > all - first ? first : Math.max(leastMs, leftMs * part));
    ping(db.vital).then(
      () => (heardAt = performance.now()),
      // Silence is what was asked about.
      () => undefined,
    );
  };
  const timer = setInterval(look, databaseMs.look);
  return () => clearInterval(timer);
}

type Parts = Omit<Daemon, 'stop' | 'waitsFor'> & Pick<HttpServer, 'leave'>;

async function startParts(options: DaemonOptions, stops: Stops): Promise<Parts> {
  const { config, log } = options;
  armFailpoint(config.failpoint);
  await checkSettings(config);
  const clock = new SharedClock(options.machineMs);
  const runtime: Runtime = { now: clock.now, uuid: randomUUID, randomBytes, log, ...options.runtime };
  const daemonId = runtime.uuid();
  const store = await openConfiguredStore(options, daemonId);
  stops.add('database', () => store.stop());
  stops.add('clock', await keepTime(clock, store.db, log));
  await ensureMasterKey(config, (await sealedVersions(store.db)).length > 0);
  await firstClient(config, { db: store.db, runtime });

  const { ports, stop } = await startPorts(config, runtime);
  stops.add('ports', stop);
  const ingest = await startIngest(store.db.calls, { routing: tasks.some((task) => task.name === routeTask) });
  const impacts = startAppliedImpacts(store.db, log);
  stops.add('intake', () => Promise.all([impacts.stop(), ingest.stop()]).then(() => undefined));
  const part = {
    ...ports,
    ingest,
    impacts,
    db: store.db,
    runtime,
    config,
    metrics: createMetrics({ processMetrics: !options.test }),
    outbox: outboxPorts(config),
    daemonId,
  };
  let ctx: FlowContext = { ...part, baseUrl: config.baseUrl ?? '' };
  const { keyRing } = ports.sealing;
  const gate = await openKeyGate(store.db, keyRing, log, daemonId);
  stops.add('keys', gate.forget);
  // Whoever asks from outside gets an answer in time, also where the database has none.
  const answering = (): FlowContext => ({ ...ctx, db: ctx.db.oneCall() });
  const mcp = createMcpEndpoint(answering);
  stops.add('tool server', () => mcp.stop());
  const http = await listen(config, answering, store.db.calls, gate.check, mcp);
  stops.add('http', () => http.stop());
  ctx = { ...part, baseUrl: config.baseUrl ?? http.url, checks: codehostChecks(() => ctx) };
  if (config.roles.includes('session')) {
    const models = await startModelGateway(ctx, modelSettings(config.file, config.fileDir));
    stops.add('model gateway', () => models.stop());
    const host = await openHostPorts(config, http.url, log, async () => installationId(store.db));
    stops.add('sandboxes', () => host.stop());
    const git = createGitRoutes(answering, sessionSettings(config.file));
    stops.add('git proxy', () => git.stop());
    const egress = createEgressRoutes(() => ctx);
    stops.add('egress', () => egress.stop());
    ctx = { ...ctx, models, git, egress, host: host.ports };
  }

  const client = await readClient(config.dataDir);
  if (client !== undefined && config.roles.includes('api')) await writeClient(config.dataDir, http.url, client);
  const work = new Work(ctx);
  stops.add('work', () => work.stop(), work.stops);
  stops.add('keys', async () => gate.stop());
  const ready = gate.waiting === undefined ? work.start() : gate.waiting.then(() => work.start());
  if (gate.waiting === undefined) await ready;
  return {
    ...http,
    ctx,
    ready,
    failed: store.lost.then(() => new Error('the embedded database has stopped and cannot be started again')),
  };
}

/** Sets the clock by the database, now and every few seconds; answers with what ends that. */
async function keepTime(clock: SharedClock, db: Database, log: Runtime['log']): Promise<() => Promise<void>> {
  const learn = async (): Promise<void> => {
    const offMs = Math.round(await clock.learn(() => serverTime(db.vital)));
    if (Math.abs(offMs) >= tellOffMs) log.warn({ offMs }, 'daemon.clock_off');
  };
  await learn();
  let learning: Promise<void> | undefined;
  // Without an answer it goes on by the machine's steady clock.
  const timer = setInterval(() => {
    learning ??= learn()
      .catch(() => undefined)
      .finally(() => (learning = undefined));
  }, learnMs);
  return async () => {
    clearInterval(timer);
    await learning;
  };
}

/** Who finds writes again, by the provider that they went to. */
function outboxPorts(config: Config): OutboxPorts {
  const { writeSpacingMs, apiUrl, webUrl, mcpUrl, attachmentHosts } = codehostSettings(config);
  const { chat, tracker } = chatSettings(config);
  return {
    readers: { codehost: findCodehostStep, chat: findChatStep, tracker: findTrackerStep, webhook: findWebhookStep },
    writeSpacingMs,
    codehostApiUrl: apiUrl,
    codehostWebUrl: webUrl,
    codehostMcpUrl: mcpUrl,
    attachmentHosts,
    chatApiUrl: chat.apiUrl,
    trackerApiUrl: tracker.apiUrl,
    chatFileHosts: chat.fileHosts,
    receivers: notificationSettings(config, conditionsList),
  };
}

/** Jobs and services. */
class Work {
  readonly #ctx: FlowContext;
  readonly stops = new Stops();
  #starting: Promise<void> | undefined;
  #isStopping = false;

  constructor(ctx: FlowContext) {
    this.#ctx = ctx;
  }

  /** Resolves when all of it runs; never, where it is stopped before. */
  async start(): Promise<void> {
    if (!this.#isStopping) await (this.#starting = this.#start());
    if (this.#isStopping) await new Promise<never>(() => undefined);
  }

  async #start(): Promise<void> {
    const { config } = this.#ctx;
    const jobs = new JobRunner(this.#ctx, { tasks });
    this.stops.add('jobs', () => jobs.stop());
    await jobs.start();
    for (const service of services.filter((one) => one.roles.some((role) => config.roles.includes(role)))) {
      if (this.#isStopping) return;
      const running = await service.start(this.#ctx);
      this.stops.add(service.name, () => running.stop());
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    // What is being started is stopped when it stands; why it failed is told by `start`.
    await this.#starting?.catch(() => undefined);
    await this.stops.run(this.#ctx.runtime.log);
  }
}

/** Refuses what can be refused without a database before one is made for it. Throws ConfigError. */
export async function checkSettings(config: Config): Promise<void> {
  checkSections(config);
  checkAddresses(config);
  await checkKeyFile(config);
}

/** Turns what a setting is to blame for into an error that names it. */
async function openConfiguredStore({ config, log, test }: DaemonOptions, daemonId: string): Promise<Store> {
  const { dataDir, databaseUrl, databaseDirectUrl } = config;
  try {
    return await openStore({
      dataDir,
      log,
      daemonId,
      ...(databaseUrl !== undefined && { databaseUrl }),
      ...(databaseDirectUrl !== undefined && { databaseDirectUrl }),
      ...(test && { volatile: true }),
    });
  } catch (error) {
    const code = errorCode(error);
    if (error instanceof DataDirInUse) throw new ConfigError('SVC_DATA_DIR', `cannot be used: ${error.message}`);
    if (code === 'EMFILE' || code === 'ENFILE') throw tooFewFiles();
    const isFile =
      (error as NodeJS.ErrnoException).syscall !== undefined && (error as NodeJS.ErrnoException).path !== undefined;
    if (isFile) throw new ConfigError('SVC_DATA_DIR', `cannot be used: ${(error as Error).message}`);
    // Not reachable, not let in, no such database, or nothing may be made in it: the message of the driver holds no password.
    const refused = code !== undefined && /^(E[A-Z]+|08...|28...|3D000|57P03|53300|25006|42501)$/.test(code);
    if (databaseUrl !== undefined && (refused || isDriversWord(error)))
      throw new ConfigError('SVC_DATABASE_URL', `cannot be used: ${(error as Error).message || code}`);
    throw error;
  }
}

const tooFewFiles = (): Fault =>
  new Fault(
    'unavailable',
    'too-few-files',
    'This process may open too few files: raise its limit (ulimit -n, LimitNOFILE of systemd).',
  );

async function firstClient(config: Config, ctx: Pick<FlowContext, 'db' | 'runtime'>): Promise<void> {
  const { dataDir } = config;
  const placeholder = config.baseUrl ?? `http://${config.listen.host}:${config.listen.port}`;
  const keep = async (client: Client): Promise<void> => {
    await writeClient(dataDir, placeholder, client);
    failpoint('bootstrap.before-commit');
  };
  if ((await bootstrap(ctx, keep)) !== undefined) return;
  // The owner of an embedded database's directory can do everything anyway; an external one hands out nothing.
  if (config.databaseUrl !== undefined || (await readClient(dataDir)) !== undefined) return;
  const recovered = await recoverClient(ctx);
  if (recovered !== undefined) await writeClient(dataDir, placeholder, recovered);
}

async function listen(
  config: Config,
  ctx: () => FlowContext,
  db: Store['db'],
  keys: () => Promise<string | undefined>,
  mcp: McpEndpoint,
): Promise<HttpServer> {
  const readiness: Readiness[] = [
    {
      name: 'database',
      check: async () => {
        if (await isReadOnly(db)) return 'The database is read-only.';
        const lack = await lackOfRoom(db);
        return lack === undefined ? undefined : `The database takes no writes: ${lack}`;
      },
    },
    {
      name: 'migrations',
      check: async () => {
        const pending = await pendingMigrations(db);
        return pending.length === 0 ? undefined : `pending: ${pending.join(', ')}`;
      },
    },
    { name: 'keys', check: keys },
  ];
  try {
    return await startHttp(ctx, {
      routes: config.roles.includes('api') ? routes : config.roles.includes('session') ? hostRoutes : [],
      readiness,
      listen: config.listen,
      ...(config.roles.includes('api') && { pages: createWebRoom(ctx) }),
      mounts: config.roles.some((role) => role === 'api' || role === 'session') ? [mcp] : [],
    });
  } catch (error) {
    if (!/^E(ADDRINUSE|ADDRNOTAVAIL|AFNOSUPPORT|ACCES|INVAL|NOTFOUND|AI_AGAIN)$/.test(errorCode(error) ?? ''))
      throw error;
    const { host, port } = config.listen;
    const why = errorCode(error) === 'EADDRINUSE' ? 'the port is in use' : (error as Error).message;
    throw new ConfigError('SVC_LISTEN', `cannot be used: ${host}:${port}: ${why}`);
  }
}
