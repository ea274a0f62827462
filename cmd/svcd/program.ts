// The program svcd: reads its settings, starts the daemon, says that it is ready, drains at the first signal.
// Exit codes: 0 drained, 1 failed, 2 a setting that cannot be used (one line on stderr that names it).

import { executionAsyncResource } from 'node:async_hooks';
import { getHeapSpaceStatistics } from 'node:v8';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { collector } from '../../internal/base/collector.ts';
import { type Config, ConfigError, loadConfig, settings } from '../../internal/base/config/config.ts';
import { createLog } from '../../internal/base/log/log.ts';
import { Fault } from '../../internal/domain/fault.ts';
import type { Daemon } from './daemon.ts';

/** A drain that hangs must not outlive a supervisor's patience. */
const drainMs = 25_000;
/**
 * `process.exit` waits for the threads that compile, and one of these may wait for this one to collect garbage, so that neither goes on
 * (nodejs/node#54918): where nothing runs any more, what is being compiled is done within milliseconds.
 */
const compileMs = 50;
const leave = (code: number): void => void setTimeout(() => process.exit(code), compileMs);

function failStart(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  process.stderr.write(`svcd: ${text.replaceAll(/\s*\n\s*/g, ' ')}\n`);
  // What nobody foresaw is worth its place in the code.
  const isForeseen = error instanceof ConfigError || error instanceof Fault;
  if (!isForeseen && error instanceof Error) process.stderr.write(`${error.stack}\n`);
  leave(error instanceof ConfigError ? 2 : 1);
}

/** The settings, as people type them. */
function help(): string {
  const rows = settings.map(({ env, flag }) => `  ${env.padEnd(28)}${flag === undefined ? '' : `--${flag}`}`);
  return `svcd: the svc daemon. Complete without any setting.\n\n${rows.join('\n')}\n  ${'SVC_CONFIG'.padEnd(28)}--config\n  ${''.padEnd(28)}--version\n  ${''.padEnd(28)}--help\n`;
}

/** Sends traces where the environment says so; nothing of it is loaded elsewhere. */
async function startTracing(config: Config): Promise<(() => Promise<void>) | undefined> {
  const { env } = process;
  if (!env['OTEL_EXPORTER_OTLP_ENDPOINT'] && !env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']) return undefined;
  if (env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none') return undefined;
  const { startExporter } = await import('../../internal/base/trace/exporter.ts');
  return startExporter({
    'service.name': 'svcd',
    'host.name': hostname(),
    'process.pid': String(process.pid),
    'svc.roles': config.roles.join(','),
  });
}

async function run(): Promise<void> {
  holdTickShape();
  if (process.argv.includes('--help')) {
    process.stdout.write(help());
    return;
  }
  if (process.argv.includes('--version')) {
    const { ownVersion } = await import('../../internal/edge/cli/command-version.ts');
    process.stdout.write(`svcd ${await ownVersion()} (node ${process.versions.node})\n`);
    return;
  }
  const config = loadConfig({ env: process.env, argv: process.argv.slice(2) });
  // A reader that has left, or a disk that is full, ends nothing.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  const log = createLog(config.logLevel);
  let daemon: Daemon | undefined;
  let ending = false;
  let stopTracing: (() => Promise<void>) | undefined;
  const end = async (code: number): Promise<void> => {
    if (ending) return;
    ending = true;
    const late = setTimeout(() => {
      log.error({ waitsFor: daemon?.waitsFor() }, 'daemon.drain_timed_out');
      process.exit(1);
    }, drainMs);
    late.unref();
    await daemon?.stop();
    // What was noted last is sent too, unless nobody takes it.
    await stopTracing?.().catch((error: unknown) => log.warn({ err: error }, 'traces.lost'));
    log.info({ code }, 'daemon.stopped');
    leave(code);
  };
  // A signal during the start ends it as soon as there is something to stop.
  let signalled = false;
  // A terminal that is closed too: the database that was started here would go on without anybody.
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(name, () => {
      signalled = true;
      log.info({ signal: name }, 'daemon.draining');
      if (daemon !== undefined) void end(0);
      // A start that hangs must not outlive a supervisor's patience either.
      else setTimeout(() => process.exit(1), drainMs).unref();
    });
  }
  for (const name of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(name, (error: unknown) => {
      log.fatal({ err: error }, 'daemon.crashed');
      void end(1);
    });
  }
  tellWarnings(log);
  stopTracing = await startTracing(config);
  // After the settings: what cannot be used is told before a thousand modules are loaded.
  const { startDaemon } = await import('./daemon.ts');
  if (signalled) return end(0);
  daemon = await startDaemon({ config, log });
  if (signalled) return end(0);
  await daemon.ready;
  process.stdout.write(
    `${JSON.stringify({ event: 'ready', url: daemon.url, pid: process.pid, dataDir: config.dataDir })}\n`,
  );
  log.info({ url: daemon.url, roles: config.roles }, 'daemon.ready');
  collectWhenIdle();
  const reason = await daemon.failed;
  log.fatal({ err: reason }, 'daemon.failed');
  await end(1);
}

/** Who reads the log line by line finds lines of JSON alone: what the runtime warns of is one of them. */
function tellWarnings(log: Logger): void {
  process.removeAllListeners('warning');
  process.on('warning', (warning) => {
    if (warning.name !== 'ExperimentalWarning') log.warn({ err: warning }, 'process.warning');
  });
}

/** Runs svcd to its end; the process exits with one of the codes above. */
export function runProgram(): Promise<void> {
  return run().catch(failStart);
}

// Gives memory back when there is nothing to do. V8 keeps the room that a burst of work, or the start itself, made it take
// for young objects, tens of megabytes, until something asks: a full collection of a small heap takes some 40 ms. It takes
// compiled code along, so that what comes next runs cold: a pause between two bursts is no idleness.

const lookMs = 5_000;
/** Idle: less than this of a core since the last look. */
const idleShare = 0.05;
/** Worth the pause. */
const roomBytes = 8 * 1_048_576;
const atMostEveryMs = 120_000;
/** Idle looks in a row; the first time one will do, for a start compiles little that is run again. */
const quietLooks = 12;

/** Looks every few seconds for as long as the process lives, which it does not keep alive. */
export function collectWhenIdle(): void {
  const collect = collector();
  let usage = process.cpuUsage();
  let nextMs = 0;
  let idleLooks = 0;
  let wantedLooks = 1;
  const look = (): void => {
    const used = process.cpuUsage(usage);
    usage = process.cpuUsage();
    const isIdle = (used.user + used.system) / 1_000 < lookMs * idleShare;
    const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space')?.space_size ?? 0;
    idleLooks = isIdle ? idleLooks + 1 : 0;
    if (idleLooks < wantedLooks || young < roomBytes || performance.now() < nextMs) return;
    nextMs = performance.now() + atMostEveryMs;
    wantedLooks = quietLooks;
    collect({ type: 'major', flavor: 'last-resort' });
  };
  setInterval(look, lookMs).unref();
}

// process.nextTick makes one object a tick, by a literal with computed keys. V8 keeps the shape of such objects only as long
// as one of them lives: a full collection in a moment without a pending tick, which is any moment, takes the shape, the
// next tick gets another, and from then on the literal takes the slow way for good (300 ns instead of 50). A request
// makes seven.

/** Keeps one tick for as long as the process lives, and with it the shape of all. */
export function holdTickShape(): void {
  process.nextTick(() => held.push(executionAsyncResource()));
}

const held: object[] = [];
