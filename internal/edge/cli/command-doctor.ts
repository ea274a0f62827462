// `svc doctor`: what is wrong with this installation and what to do. First what only this side can see (files, reach,
// token, clock, versions), then what the server finds about itself. Exit 1 when anything is an error.

import * as jobs from '../../../schemas/api/jobs.ts';
import * as repositories from '../../../schemas/api/repositories.ts';
import * as server from '../../../schemas/api/server.ts';
import * as tenancy from '../../../schemas/api/tenancy.ts';
import { stat } from 'node:fs/promises';
import { timeLimit } from '../../base/waits.ts';
import { type Client, createClient } from './client.ts';
import { ownVersion } from './command-version.ts';
import { UsageError, Refusal, refusal, trustHint } from './failure.ts';
import { clientFile, findServer, readClientFile, type ServerSettings } from './settings.ts';
import { clean, count, durationText, type Paint } from './text.ts';
import type { Call, Handler } from './types.ts';

export type DoctorCheck = repositories.DoctorCheck;

/** Of the HTTP API that this program was written for. */
const apiVersion = '1';
const clockWarningMs = 30_000;
const lookMs = 10_000;

export const doctorCommand: Handler = async (call) => {
  if (call.flag('retry-jobs')) await retryJobs(call);
  const checks = [await checkNode(), ...(await checkClientFile(call)), ...(await checkServer(call))];
  return tellChecks(call, checks);
};

/** Prints what was looked at; exit 1 where anything of it is an error. */
export function tellChecks(call: Call, checks: readonly DoctorCheck[]): number {
  const errors = checks.filter((check) => check.status === 'error').length;
  call.screen.emit({ ok: errors === 0, checks }, () => doctorText(checks, call.screen.paint));
  if (errors > 0 && !call.json)
    call.screen.note(`${call.screen.errPaint('red', 'svc:')} ${count(errors, 'problem')} found`);
  return errors === 0 ? 0 : 1;
}

async function retryJobs(call: Call): Promise<void> {
  const client = createClient(await findServer(call), call.io.signal);
  const { retried } = await client.call(jobs.retryJobs);
  if (!call.json) call.screen.note(`${count(retried, 'job')} will run again`);
}

export function doctorText(checks: readonly DoctorCheck[], paint: Paint): string {
  const marks = { ok: paint('green', '✓'), warning: paint('yellow', '!'), error: paint('red', '✗') };
  const width = Math.max(...checks.map((check) => check.name.length));
  return checks
    .flatMap((check) => [
      `${marks[check.status]} ${clean(check.name, true).padEnd(width)}  ${clean(check.message, true)}`,
      ...(check.hint === undefined ? [] : [`  ${' '.repeat(width)}  ${paint('cyan', '→')} ${clean(check.hint, true)}`]),
    ])
    .join('\n');
}

async function checkNode(): Promise<DoctorCheck> {
  return { name: 'program', status: 'ok', message: `svc ${await ownVersion()} on node ${process.versions.node}` };
}

async function checkClientFile(call: Call): Promise<DoctorCheck[]> {
  const path = await clientFile(call);
  const name = 'client.json';
  try {
    const file = await readClientFile(path);
    if (file === undefined) {
      return [
        {
          name,
          status: 'warning',
          message: `there is no ${path}`,
          hint: 'svcd writes it; another machine needs SVC_URL and SVC_TOKEN',
        },
      ];
    }
    const mode = (await stat(path)).mode & 0o777;
    if ((mode & 0o077) !== 0) {
      return [
        {
          name,
          status: 'error',
          message: `${path} can be read by others (mode ${mode.toString(8)})`,
          hint: `chmod 600 ${path}`,
        },
      ];
    }
    return [{ name, status: 'ok', message: path }];
  } catch (error) {
    return [failed(name, error)];
  }
}

function failed(name: string, error: unknown): DoctorCheck {
  if (!(error instanceof Refusal) && !(error instanceof UsageError)) throw error;
  return { name, status: 'error', message: error.message, ...(error.hint !== undefined && { hint: error.hint }) };
}

async function checkServer(call: Call): Promise<DoctorCheck[]> {
  let server: ServerSettings;
  try {
    server = await findServer(call);
  } catch (error) {
    return [failed('server', error)];
  }
  const reach = await checkReach(server, call);
  if (reach.some((check) => check.status === 'error')) return reach;
  return [...reach, ...(await checkReady(server, call)), ...(await checkToken(server, call))];
}

/** What an address answers, read to its end: whatever is between may cut it off, or take its time over each byte. */
async function look(call: Call, url: string): Promise<{ readonly response: Response; readonly text: string }> {
  const signal = timeLimit(lookMs, call.io.signal);
  const response = await fetch(url, { redirect: 'manual', signal });
  return { response, text: await response.text() };
}

/** Why a look came to nothing. Throws Refusal where somebody has stopped it. */
function whyNot({ io }: Call, error: unknown): string {
  if (io.signal.aborted) throw refusal('interrupted', 'interrupted');
  if (error instanceof DOMException && error.name === 'TimeoutError') return `no answer in ${durationText(lookMs)}`;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return (cause as NodeJS.ErrnoException).code ?? (cause instanceof Error ? cause.message : 'no answer');
}

async function checkReach(server: ServerSettings, call: Call): Promise<DoctorCheck[]> {
  const startedMs = call.io.now().getTime();
  let response: Response;
  try {
    ({ response } = await look(call, `${server.url}/healthz`));
  } catch (error) {
    const why = whyNot(call, error);
    const hint = trustHint(why) ?? 'start svcd, or check --url and SVC_URL';
    return [{ name: 'server', status: 'error', message: `${server.url} cannot be reached (${why})`, hint }];
  }
  const endedMs = call.io.now().getTime();
  if (!response.ok) {
    return [
      {
        name: 'server',
        status: 'error',
        message: `${server.url} answers /healthz with ${response.status}`,
        hint: 'is this address svcd’s?',
      },
    ];
  }
  const checks: DoctorCheck[] = [
    {
      name: 'server',
      status: 'ok',
      message: `${server.url} answers in ${durationText(endedMs - startedMs)} (from ${server.from})`,
    },
  ];
  const date = Date.parse(response.headers.get('date') ?? '');
  if (!Number.isNaN(date)) checks.push(clockCheck(date - (startedMs + endedMs) / 2));
  return checks;
}

/** `skewMs` above zero: the server's clock is ahead. Its header is exact to a second. */
export function clockCheck(skewMs: number): DoctorCheck {
  const name = 'clock';
  if (Math.abs(skewMs) < clockWarningMs) return { name, status: 'ok', message: 'this machine and the server agree' };
  const direction = skewMs > 0 ? 'behind' : 'ahead of';
  return {
    name,
    status: 'warning',
    message: `this machine is ${durationText(Math.abs(skewMs))} ${direction} the server`,
    hint: 'set both by NTP; schedules and signatures go by the clock of the database',
  };
}

async function checkReady(server: ServerSettings, call: Call): Promise<DoctorCheck[]> {
  let response: Response;
  let text: string;
  try {
    ({ response, text } = await look(call, `${server.url}/readyz`));
  } catch (error) {
    const message = `${server.url}/readyz does not answer (${whyNot(call, error)})`;
    return [{ name: 'ready', status: 'error', message }];
  }
  if (response.ok) return [{ name: 'ready', status: 'ok', message: 'the daemon takes work' }];
  const reasons = unreadyReasons(text);
  // While the database is away, nothing else is known, the keys neither.
  const isAway = reasons.some(({ name }) => name === 'database');
  if (reasons.length > 0)
    return reasons.map(({ name, reason }) => ({
      name,
      status: 'error',
      message: reason,
      ...hintOf(name, reason, isAway),
    }));
  return [
    { name: 'ready', status: 'error', message: `not ready: ${text.slice(0, 300)}`, hint: 'the daemon’s log tells why' },
  ];
}

function unreadyReasons(text: string): { name: string; reason: string }[] {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // Something else than svcd answered.
    return [];
  }
  const { checks } = Object(body) as Partial<server.Readiness>;
  return (Array.isArray(checks) ? (checks as server.Readiness['checks']) : [])
    .filter((check) => check.ok === false)
    .map(({ name, reason }) => ({ name, reason: reason ?? '-' }));
}

/** The file is there, and says something else than what it lacks. */
const isWrongFile = (reason: string): boolean =>
  /SVC_MASTER_KEY_FILE line |holds no key|another key as version|has been retired/.test(reason) &&
  !/lacks version/.test(reason);

const hintOf = (name: string, reason: string, isAway: boolean): { hint?: string } => {
  if (name === 'database')
    return { hint: 'look after its server: does it run, is its disk full; the daemon’s log tells why' };
  if (name !== 'keys' || isAway) return {};
  const again = 'it is read again within seconds';
  return isWrongFile(reason)
    ? { hint: `correct the file of SVC_MASTER_KEY_FILE: each key in use as it was, the current one last; ${again}` }
    : { hint: `put the missing key back into SVC_MASTER_KEY_FILE; ${again}` };
};

async function checkToken(server: ServerSettings, call: Call): Promise<DoctorCheck[]> {
  if (server.token === undefined) {
    return [
      {
        name: 'token',
        status: 'error',
        message: `no token is known for ${server.url}`,
        hint: 'give --token or SVC_TOKEN',
      },
    ];
  }
  const client = createClient(server, call.io.signal);
  try {
    // Whatever listens there may answer to everything.
    const { name: who } = Object(await client.call(tenancy.getMe)) as Partial<tenancy.Me>;
    const { checks } = Object(await client.call(repositories.diagnoseProject)) as {
      readonly checks?: readonly DoctorCheck[];
    };
    if (who === undefined || !Array.isArray(checks)) {
      const message = `what answers at ${server.url} is no svcd`;
      return [{ name: 'server', status: 'error', message, hint: 'look at the address: --url, SVC_URL or client.json' }];
    }
    return [
      { name: 'token', status: 'ok', message: `valid: ${who} in ${server.org}/${server.project}` },
      await versionCheck(client),
      ...checks,
    ];
  } catch (error) {
    return [failed('token', error)];
  }
}

async function versionCheck(client: Client): Promise<DoctorCheck> {
  const name = 'version';
  const theirs = String(
    (Object((await client.call(server.getDescription))['info']) as { version?: unknown }).version ?? '-',
  );
  if (theirs === apiVersion) return { name, status: 'ok', message: `the server speaks version ${theirs} of the API` };
  return {
    name,
    status: 'warning',
    message: `the server speaks version ${theirs} of the API, this program version ${apiVersion}`,
    hint: 'use the same version on both sides',
  };
}
