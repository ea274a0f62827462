// Tools about workflows and about secrets of a repository.

import { type ApiAnswer, fetchSigned, sealSecret } from '../../adapters/providers/codehost/codehost.ts';
import { yieldToEventLoop } from '../../base/concurrency.ts';
import { listAt, objectAt, textAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import { messageOf } from '../../domain/messages.ts';
import { secretText } from '../sealed.ts';
import type { Want } from './confine.ts';
import type { CodehostCall } from './codehost-call.ts';
import { shown } from './shape.ts';
import { type Asked, type BrokerTool, given, invalidInput, maybe, needs, number, text } from './tool.ts';
import { page } from './tools-issues.ts';

const actionsRead = (): readonly Want[] => ['actions:read'];
const actionsWrite = (): readonly Want[] => ['actions:write'];
const logBytesMax = 64 * 1024 * 1024;
const logsMax = 20;
const logCharsMax = 300_000;
const newline = 0x0a;
/** Bytes that are looked at between two turns of whoever else there is. */
const sliceBytes = 4_194_304;
const jobPagesMax = 30;

const gets: { readonly [method: string]: (id: string) => string } = {
  get_workflow: (id) => `/actions/workflows/${id}`,
  get_workflow_run: (id) => `/actions/runs/${id}`,
  get_workflow_job: (id) => `/actions/jobs/${id}`,
  get_workflow_run_usage: (id) => `/actions/runs/${id}/timing`,
};

/** Something that the provider hands out by a signed address, fetched without the token. */
async function signedText(
  codehost: CodehostCall,
  path: string,
): Promise<{ readonly bytes: Buffer; readonly mimeType: string }> {
  const { location, bytes } = await codehost.read({ path, leadsElsewhere: true, mostBytes: logBytesMax });
  if (location === undefined) return { bytes, mimeType: 'text/plain' };
  const found = await fetchSigned(location, {
    allowPrivate: codehost.options.ctx.config.allowPrivateNetwork,
    mostBytes: logBytesMax,
  });
  if ('location' in found) throw outsideFault('provider-unavailable', 'the code host leads on and on');
  return found;
}

async function actionsGet(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const id = encodeURIComponent(text(input, 'resource_id'));
  const at = gets[text(input, 'method')];
  if (at !== undefined) return shown(await codehost.json(at(id)));
  const isLogs = text(input, 'method') === 'get_workflow_run_logs_url';
  const { location } = await codehost.read({
    path: isLogs ? `/actions/runs/${id}/logs` : `/actions/artifacts/${id}/zip`,
    leadsElsewhere: true,
  });
  if (location === undefined) throw outsideFault('not-found', 'the code host names no address for it');
  return { url: location };
}

const lists: { readonly [method: string]: (id: string | undefined) => readonly [path: string, at: string] } = {
  list_workflows: () => ['/actions/workflows', 'workflows'],
  list_workflow_runs: (id) => [id === undefined ? '/actions/runs' : `/actions/workflows/${id}/runs`, 'workflow_runs'],
  list_workflow_jobs: (id) => [`/actions/runs/${id}/jobs`, 'jobs'],
  list_workflow_run_artifacts: (id) => [`/actions/runs/${id}/artifacts`, 'artifacts'],
};

function actionsList(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const method = text(input, 'method');
  const id = maybe(input, 'resource_id');
  const [path, at] = lists[method]?.(id === undefined ? undefined : encodeURIComponent(id)) ?? ['', ''];
  const filter =
    method === 'list_workflow_runs'
      ? input['workflow_runs_filter']
      : method === 'list_workflow_jobs'
        ? input['workflow_jobs_filter']
        : {};
  return page(codehost, path, input, objectAt(filter), at);
}

async function logOf(codehost: CodehostCall, job: number, lines: number): Promise<JsonObject> {
  const { bytes } = await signedText(codehost, `/actions/jobs/${job}/logs`);
  const kept = bytes.subarray(Math.max(beginOf(bytes, lines), bytes.length - 4 * logCharsMax)).toString('utf8');
  return {
    job_id: job,
    logs_content: kept.slice(-logCharsMax).toWellFormed(),
    original_length: await linesOf(bytes),
  };
}

// Whoever runs a job writes its log, which may be made of line breaks: nothing is made of each.

/** Where the last lines of a log begin. */
function beginOf(log: Buffer, lines: number): number {
  let start = log.length + 1;
  for (let left = lines; left > 0 && start > 0; left -= 1)
    start = start < 2 ? 0 : log.lastIndexOf(newline, start - 2) + 1;
  return start;
}

/** How many lines a log has; others have their turn meanwhile. */
async function linesOf(log: Buffer): Promise<number> {
  let count = 1;
  for (let from = 0; from < log.length; from += sliceBytes) {
    for (let at = from; at < log.length && at < from + sliceBytes; at += 1) if (log[at] === newline) count += 1;
    await yieldToEventLoop();
  }
  return count;
}

/** A run has a job for each place of its matrix, which may be several pages. */
async function jobsOf(codehost: CodehostCall, run: number): Promise<JsonObject[]> {
  const jobs: JsonObject[] = [];
  for (let page: number | undefined = 1; page !== undefined && page <= jobPagesMax; ) {
    const query = { filter: 'latest', per_page: 100, page };
    const { json, nextPage }: ApiAnswer = await codehost.read({ path: `/actions/runs/${run}/jobs`, query });
    jobs.push(...listAt(objectAt(json)['jobs']).map(objectAt));
    page = nextPage;
  }
  return jobs;
}

async function jobLogs(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const lines = Math.min(5_000, Math.max(1, Number(input['tail_lines'] ?? 500)));
  if (input['job_id'] !== undefined) return logOf(codehost, number(input, 'job_id'), lines);
  const run = number(input, 'run_id');
  const jobs = await jobsOf(codehost, run);
  const failed = jobs.filter((one) => one['conclusion'] === 'failure');
  const logs: JsonObject[] = [];
  // A model reads all of them: each gets its share, its end being what tells.
  const told = failed.slice(0, logsMax);
  const share = Math.floor(logCharsMax / Math.max(1, told.length));
  for (const job of told) {
    const log = await logOf(codehost, Number(job['id']), lines);
    logs.push({
      ...log,
      job_name: job['name'],
      logs_content: (textAt(log['logs_content']) ?? '').slice(-share).toWellFormed(),
    });
  }
  const more = failed.length > told.length;
  return { run_id: run, total_jobs: jobs.length, failed_jobs: failed.length, logs, more };
}

async function rerun(codehost: CodehostCall, run: number, which: 'rerun' | 'rerun-failed-jobs'): Promise<Json> {
  const before = objectAt(await codehost.json(`/actions/runs/${run}`))['run_attempt'] ?? 0;
  return codehost.write(
    { method: 'POST', path: `/actions/runs/${run}/${which}` },
    { probe: { kind: 'rerun', run, before }, shape: (): Json => ({ accepted: true }) },
  );
}

async function trigger(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const accepted = (): Json => ({ accepted: true });
  const run = number(input, 'run_id');
  switch (text(input, 'method')) {
    case 'run_workflow': {
      const path = `/actions/workflows/${encodeURIComponent(text(input, 'workflow_id'))}/dispatches`;
      // Nothing of a run says who asked for it: an unknown outcome stays unknown.
      const probe = { kind: 'unseen' };
      return codehost.write({ method: 'POST', path, body: given(input, 'ref', 'inputs') }, { probe, shape: accepted });
    }
    case 'rerun_workflow_run':
      return rerun(codehost, run, 'rerun');
    case 'rerun_failed_jobs':
      return rerun(codehost, run, 'rerun-failed-jobs');
    case 'cancel_workflow_run': {
      const probe = { kind: 'cancelled', run };
      return codehost.write({ method: 'POST', path: `/actions/runs/${run}/cancel` }, { probe, shape: accepted });
    }
    default:
      return codehost.write(
        { method: 'DELETE', path: `/actions/runs/${run}/logs` },
        {
          probe: { kind: 'exists', path: `/actions/runs/${run}/logs`, isThere: false, answer: 'accepted' },
          shape: accepted,
        },
      );
  }
}

const secretWants =
  (level: 'read' | 'write') =>
  (input: JsonObject): readonly Want[] => [
    input['environment'] === undefined ? `secrets:${level}` : `environments:${level}`,
  ];
const secretsAt = (input: JsonObject): string => {
  const place = maybe(input, 'environment');
  return place === undefined ? '/actions/secrets' : `/environments/${encodeURIComponent(place)}/secrets`;
};
const secretBytesMax = 48 * 1024;

function checkName(input: JsonObject): void {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,254}$/.test(text(input, 'secret_name'))) {
    throw invalidInput('secret_name: expected letters, digits and _, not beginning with a digit');
  }
  if (/^GITHUB_/i.test(text(input, 'secret_name')))
    throw invalidInput('secret_name: names that begin with GITHUB_ are the code host’s own');
}

async function setSecret(codehost: CodehostCall, { ctx, caller, input }: Asked): Promise<Json> {
  const name = text(input, 'secret_name');
  const path = `${secretsAt(input)}/${encodeURIComponent(name)}`;
  const value = await valueOf({ ctx, caller, input });
  if (Buffer.byteLength(value) > secretBytesMax)
    throw outsideFault('too-large', `a secret has at most ${secretBytesMax} bytes`);
  // The key changes: it is asked for at each write.
  const key = objectAt(await codehost.json(`${secretsAt(input)}/public-key`));
  const sealed = await sealSecret(value, textAt(key['key']) ?? '');
  const probe = { kind: 'secret', path, name, at: new Date(codehost.now.getTime() - 5_000).toISOString() };
  return codehost.write(
    { method: 'PUT', path, body: { encrypted_value: sealed, key_id: key['key_id'] } },
    { probe, shape: (_, status): Json => ({ name, created: status === 201 }) },
  );
}

/** The value, or that of a secret of the project: it is resolved here and never shown to the session. */
async function valueOf({ ctx, caller, input }: Asked): Promise<string> {
  const own = maybe(input, 'value');
  if (own !== undefined) return own;
  const name = text(input, 'valueFromSecret');
  const found = await secretText(ctx, caller.project, name, {
    kind: 'tool',
    name: `${caller.agent}/set_repository_secret`,
  });
  if (found === undefined) throw outsideFault('not-found', messageOf('secretNotFound', name));
  return found;
}

const setRepositorySecret: BrokerTool = {
  about: 'Write a secret of a repository or of one of its environments; its value is never shown.',
  effect: 'takes',
  write: true,
  wants: secretWants('write'),
  check(input) {
    checkName(input);
    if ((input['value'] === undefined) === (input['valueFromSecret'] === undefined)) {
      throw invalidInput('give exactly one of value and valueFromSecret');
    }
    if (input['value'] === '') throw invalidInput('value: is empty');
  },
  run: setSecret,
};
const listSecrets: BrokerTool = {
  about: 'List the names of the secrets of a repository or of one of its environments.',
  effect: 'none',
  write: false,
  wants: secretWants('read'),
  run: (codehost, { input }) => page(codehost, secretsAt(input), input, {}, 'secrets'),
};

export const workTools: { readonly [name: string]: BrokerTool } = {
  actions_get: {
    about: 'Read a workflow, run or job.',
    effect: 'none',
    write: false,
    wants: actionsRead,
    run: (codehost, { input }) => actionsGet(codehost, input),
  },
  actions_list: {
    about: 'List workflows, runs, jobs or artifacts.',
    effect: 'none',
    write: false,
    wants: actionsRead,
    check(input) {
      if (/jobs|artifacts/.test(text(input, 'method'))) needs(input, 'resource_id');
    },
    run: (codehost, { input }) => actionsList(codehost, input),
  },
  get_job_logs: {
    about: 'Read the end of a job’s log, or of the failed jobs of a run.',
    effect: 'none',
    write: false,
    wants: actionsRead,
    check(input) {
      if (input['job_id'] === undefined && !(input['run_id'] !== undefined && input['failed_only'] === true)) {
        throw invalidInput('give job_id, or run_id with failed_only: true');
      }
    },
    run: (codehost, { input }) => jobLogs(codehost, input),
  },
  rerun_failed_jobs: {
    about: 'Run the failed jobs of a workflow run again.',
    effect: 'adds',
    write: true,
    wants: actionsWrite,
    run: (codehost, { input }) => rerun(codehost, number(input, 'run_id'), 'rerun-failed-jobs'),
  },
  actions_run_trigger: {
    about: 'Run a workflow, run it again, cancel it, or delete its logs.',
    effect: 'takes',
    write: true,
    wants: actionsWrite,
    check(input) {
      if (text(input, 'method') === 'run_workflow') needs(input, 'workflow_id', 'ref');
      else needs(input, 'run_id');
    },
    run: (codehost, { input }) => trigger(codehost, input),
  },
  list_repository_secrets: listSecrets,
  actions_secret_list: listSecrets,
  set_repository_secret: setRepositorySecret,
  actions_secret_write: setRepositorySecret,
  delete_repository_secret: {
    about: 'Delete a secret of a repository or of one of its environments.',
    effect: 'takes',
    write: true,
    wants: secretWants('write'),
    check: checkName,
    run: async (codehost, { input }) => {
      const name = text(input, 'secret_name');
      const path = `${secretsAt(input)}/${encodeURIComponent(name)}`;
      const shape = (): Json => ({ name, deleted: true });
      try {
        return await codehost.write(
          { method: 'DELETE', path },
          { probe: { kind: 'exists', path, isThere: false, answer: 'secret', name }, shape },
        );
      } catch (error) {
        if ((error as { code?: unknown }).code === 'not-found') return { name, deleted: true };
        throw error;
      }
    },
  },
};
