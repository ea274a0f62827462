// `make run`: svcd on its embedded database, a demo repository served over smart HTTP on loopback (or the user's own),
// registered and synced, and a tour of what came of it. Stays in the foreground until Ctrl-C and then stops everything.
// A second run finds data, repository and the user's commits as it left them.

import { parseArgs } from 'node:util';
import { ConfigError, loadConfig } from '../../internal/base/config/config.ts';
import { children, type Daemon, follow, freeListen, startSvcd, svc } from './processes.ts';
import { type DemoHost, startHost } from './codehost.ts';
import { demoSource, givenSource, type Source } from './source.ts';
import { firstRun, register } from './register.ts';
import { harnessFallbacks } from './harnesses.ts';
import { type DemoModel, prepareProject, startModel } from './model.ts';
import { farewell, tour } from './tour.ts';

const say = (text: string): void => void process.stdout.write(`${text}\n`);

function readArguments(): { readonly repo: string | undefined } {
  try {
    const { values } = parseArgs({ options: { repo: { type: 'string' } } });
    return { repo: values.repo === '' ? undefined : values.repo };
  } catch (error) {
    process.stderr.write(`demo: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(2);
  }
}

async function main(stopping: Promise<void>): Promise<number> {
  const { repo } = readArguments();
  const config = loadConfig({ env: process.env, argv: [] });
  const { dataDir } = config;
  let source: Source | undefined;
  let host: DemoHost | undefined;
  let daemon: Daemon | undefined;
  let model: DemoModel | undefined;
  try {
    source = repo === undefined ? await demoSource(dataDir) : await givenSource(repo);
    const listen = await freeListen(config.listen);
    if (listen.note !== undefined) say(listen.note);
    say(`starting svcd, data in ${dataDir}`);
    const stands = await harnessFallbacks(config);
    if (repo === undefined) model = await startModel(dataDir, stands, process.env);
    for (const note of [...stands.notes, ...(model === undefined ? [] : [model.note])]) say(note);
    const environment = { ...stands.environment, ...model?.environment };
    daemon = await startSvcd(dataDir, listen.address, environment, stopping);
    if (daemon === undefined) return 0;
    say(`svcd serves ${daemon.url}; its log is ${daemon.logFile}`);
    say('');
    // The demo's own agents are woken by a code host, which is simulated; the user's own are left to theirs.
    if (repo === undefined) {
      await prepareProject(dataDir, model !== undefined);
      host = await startHost(dataDir);
      await host.connect();
    }
    const synced = await firstSync(dataDir, source);
    await tour(dataDir, { source, synced, host }, say);
    // Only then does nothing that is changed from now on go by unseen.
    await follow(dataDir, ['reconcile', 'logs', '--repo', source.name, '--follow', '--limit', '0']);
    say('new runs appear here; Ctrl-C stops everything');
    const ended = await Promise.race([stopping.then(() => undefined), daemon.exited]);
    if (ended !== undefined) {
      process.stderr.write(
        `svcd ended by itself (${ended}); the end of ${daemon.logFile}:\n${await daemon.logTail()}\n`,
      );
      return 1;
    }
    return 0;
  } finally {
    for (const child of children) child.kill('SIGTERM');
    if (daemon !== undefined) {
      say(farewell);
      await daemon.stop();
    }
    await host?.stop();
    await model?.stop();
    await source?.stop?.();
  }
}

/** Registering starts a sync by itself, which is shown when it is done; what was registered before is synced by hand. */
async function firstSync(dataDir: string, source: Source): Promise<boolean> {
  const { changed } = await register(dataDir, source);
  const run = changed ? await firstRun(dataDir, source) : undefined;
  if (run === undefined) return (await svc(dataDir, ['repo', 'sync', source.name, '--wait'])) === 0;
  await svc(dataDir, ['reconcile', 'show', run.id]);
  return run.status === 'applied' || run.status === 'unchanged';
}

const stopping = new Promise<void>((resolve) => {
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => resolve());
});
try {
  process.exitCode = await main(stopping);
} catch (error) {
  const known = error instanceof ConfigError || (error instanceof Error && error.name === 'DemoError');
  process.stderr.write(`demo: ${known ? error.message : error instanceof Error ? error.stack : String(error)}\n`);
  process.exitCode = error instanceof ConfigError ? 2 : 1;
}
