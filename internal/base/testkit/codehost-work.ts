// The simulated code host's REST answers about workflows, checks, statuses, secrets, and the application itself.

import { type SimAnswer, type Call, type Handler, paged, r } from './codehost-call.ts';
import { userOf } from './codehost-issues.ts';
import { notFound, type Run, type SimRepository } from './codehost-state.ts';

const runOf = ({ repo, params }: Call): Run => {
  const found = repo.runs.find((one) => one.id === Number(params['run_id']));
  if (found === undefined) throw notFound();
  return found;
};
const showRun = (repo: SimRepository, run: Run) => ({
  id: run.id,
  name: run.name,
  workflow_id: run.workflowId,
  status: run.status,
  conclusion: run.conclusion,
  head_sha: run.headSha,
  head_branch: run.headBranch,
  run_attempt: run.attempt,
  html_url: `https://codehost.example/${repo.fullName}/actions/runs/${run.id}`,
});
const jobOf = ({ repo, params }: Call) => {
  const found = repo.runs.flatMap((run) => run.jobs).find((one) => one.id === Number(params['job_id']));
  if (found === undefined) throw notFound();
  return found;
};
const showJob = ({ id, name, status, conclusion }: Run['jobs'][number]) => ({ id, name, status, conclusion });
const signed = ({ sim }: Call, content: string, type = 'text/plain'): SimAnswer => ({
  status: 302,
  headers: { location: sim.sign(Buffer.from(content), type) },
});
const again = (call: Call): SimAnswer => {
  const run = runOf(call);
  run.attempt += 1;
  run.status = 'queued';
  run.conclusion = null;
  return { status: 201, body: {} };
};

const placeOf = ({ params }: Call): string => params['environment_name'] ?? '';
const secretsOf = (call: Call) => call.repo.secrets.get(placeOf(call)) ?? new Map<string, never>();
const showSecret = ([name, { created, updated }]: [string, { created: string; updated: string }]) => ({
  name,
  created_at: created,
  updated_at: updated,
});

function putSecret(call: Call): SimAnswer {
  const { repo, params, body, sim } = call;
  const name = (params['secret_name'] ?? '').toUpperCase();
  const kept =
    repo.secrets.get(placeOf(call)) ?? new Map<string, { sealed: string; created: string; updated: string }>();
  repo.secrets.set(placeOf(call), kept);
  const there = kept.get(name);
  const at = sim.time();
  kept.set(name, { sealed: String(body['encrypted_value']), created: there?.created ?? at, updated: at });
  return there === undefined ? { status: 201, body: {} } : { status: 204 };
}

function secretHandlers(base: string): { readonly [operation: string]: Handler } {
  return {
    [`GET ${base}`]: (call) => {
      const list = [...secretsOf(call)].map(showSecret);
      return paged(call.query, list, (secrets) => ({ total_count: list.length, secrets }));
    },
    [`GET ${base}/public-key`]: ({ repo }) => ({ body: { key_id: repo.secretKey.id, key: repo.secretKey.publicKey } }),
    [`GET ${base}/{secret_name}`]: (call) => {
      const name = (call.params['secret_name'] ?? '').toUpperCase();
      const found = [...secretsOf(call)].find(([one]) => one === name);
      if (found === undefined) throw notFound();
      return { body: showSecret(found) };
    },
    [`PUT ${base}/{secret_name}`]: putSecret,
    [`DELETE ${base}/{secret_name}`]: (call) => {
      const name = (call.params['secret_name'] ?? '').toUpperCase();
      if (!secretsOf(call).delete(name)) throw notFound();
      return { status: 204 };
    },
  };
}

function makeCheck({ repo, body, sim }: Call): SimAnswer {
  const { output, ...fields } = body as { output?: { annotations?: unknown[] } };
  const { annotations = [], ...said } = output ?? {};
  const check = { id: sim.nextId(), annotations: [...annotations], fields: { ...fields, output: said } };
  repo.checks.push(check);
  return { status: 201, body: showCheck(check) };
}
function changeCheck(call: Call): SimAnswer {
  const check = checkOf(call);
  const { output, ...fields } = call.body as { output?: { annotations?: unknown[] } };
  const { annotations = [], ...said } = output ?? {};
  check.annotations.push(...annotations);
  check.fields = { ...check.fields, ...fields, output: { ...(check.fields['output'] as object), ...said } };
  return { body: showCheck(check) };
}
const checkOf = ({ repo, params }: Call) => {
  const found = repo.checks.find((one) => one.id === Number(params['check_run_id']));
  if (found === undefined) throw notFound();
  return found;
};
const showCheck = ({ id, fields, annotations }: SimRepository['checks'][number]) => ({
  id,
  ...fields,
  status: fields['conclusion'] === undefined ? (fields['status'] ?? 'queued') : 'completed',
  conclusion: fields['conclusion'] ?? null,
  output: { ...(fields['output'] as object), annotations_count: annotations.length },
  app: { id: 1, slug: 'svc' },
});

const statusesOf = ({ repo, params }: Call) =>
  repo.statuses
    .filter((one) => one.sha === params['ref'])
    .toReversed()
    .map(({ id, fields, user }) => ({ id, ...fields, creator: userOf(user) }));

function combined(call: Call): SimAnswer {
  const newest = new Map<string, { [key: string]: unknown }>();
  for (const one of statusesOf(call)) {
    const context = String((one as { context?: unknown }).context ?? 'default').toLowerCase();
    if (!newest.has(context)) newest.set(context, one);
  }
  const list = [...newest.values()];
  const states = list.map((one) => one['state']);
  const state = states.some((one) => one === 'failure' || one === 'error')
    ? 'failure'
    : states.every((one) => one === 'success') && states.length > 0
      ? 'success'
      : 'pending';
  const [sha, total_count] = [call.params['ref'], list.length];
  return paged(call.query, list, (statuses) => ({ state, sha, total_count, statuses }));
}

export const workHandlers: { readonly [operation: string]: Handler } = {
  ...secretHandlers(`${r}/actions/secrets`),
  ...secretHandlers(`${r}/environments/{environment_name}/secrets`),
  [`GET ${r}/actions/workflows`]: ({ repo, query }) =>
    paged(query, repo.workflows, (workflows) => ({ total_count: repo.workflows.length, workflows })),
  [`GET ${r}/actions/workflows/{workflow_id}`]: ({ repo, params }) => {
    const id = params['workflow_id'] ?? '';
    const found = repo.workflows.find((one) => String(one.id) === id || one.path.endsWith(`/${id}`));
    if (found === undefined) throw notFound();
    return { body: found };
  },
  [`POST ${r}/actions/workflows/{workflow_id}/dispatches`]: () => ({ status: 204 }),
  [`GET ${r}/actions/runs`]: ({ repo, query }) =>
    paged(
      query,
      repo.runs.map((one) => showRun(repo, one)),
      (runs) => ({
        total_count: repo.runs.length,
        workflow_runs: runs,
      }),
    ),
  [`GET ${r}/actions/workflows/{workflow_id}/runs`]: ({ repo, query, params }) => {
    const found = repo.runs.filter((one) => String(one.workflowId) === params['workflow_id']);
    return paged(
      query,
      found.map((one) => showRun(repo, one)),
      (runs) => ({
        total_count: found.length,
        workflow_runs: runs,
      }),
    );
  },
  [`GET ${r}/actions/runs/{run_id}`]: (call) => ({ body: showRun(call.repo, runOf(call)) }),
  [`GET ${r}/actions/runs/{run_id}/jobs`]: (call) => {
    const { jobs } = runOf(call);
    return paged(call.query, jobs.map(showJob), (page) => ({ total_count: jobs.length, jobs: page }));
  },
  [`GET ${r}/actions/runs/{run_id}/artifacts`]: (call) => {
    runOf(call);
    return paged(call.query, [], () => ({ total_count: 0, artifacts: [] }));
  },
  [`GET ${r}/actions/runs/{run_id}/timing`]: (call) => ({ body: { run_duration_ms: runOf(call).attempt * 1_000 } }),
  [`GET ${r}/actions/runs/{run_id}/logs`]: (call) => signed(call, runOf(call).name, 'application/zip'),
  [`DELETE ${r}/actions/runs/{run_id}/logs`]: (call) => {
    runOf(call);
    return { status: 204 };
  },
  [`POST ${r}/actions/runs/{run_id}/rerun`]: again,
  [`POST ${r}/actions/runs/{run_id}/rerun-failed-jobs`]: again,
  [`POST ${r}/actions/runs/{run_id}/cancel`]: (call) => {
    runOf(call).status = 'cancelled';
    return { status: 202, body: {} };
  },
  [`GET ${r}/actions/jobs/{job_id}`]: (call) => ({ body: showJob(jobOf(call)) }),
  [`GET ${r}/actions/jobs/{job_id}/logs`]: (call) => signed(call, jobOf(call).log),
  [`GET ${r}/actions/artifacts/{artifact_id}/{archive_format}`]: (call) => signed(call, 'PK', 'application/zip'),
  [`POST ${r}/check-runs`]: makeCheck,
  [`GET ${r}/check-runs/{check_run_id}`]: (call) => ({ body: showCheck(checkOf(call)) }),
  [`PATCH ${r}/check-runs/{check_run_id}`]: changeCheck,
  [`GET ${r}/check-runs/{check_run_id}/annotations`]: (call) => paged(call.query, checkOf(call).annotations),
  [`GET ${r}/commits/{ref}/check-runs`]: ({ repo, params, query }) => {
    const name = query.get('check_name');
    const found = repo.checks.filter(
      ({ fields }) => fields['head_sha'] === params['ref'] && (name === null || fields['name'] === name),
    );
    return paged(query, found.map(showCheck), (runs) => ({ total_count: found.length, check_runs: runs }));
  },
  [`POST ${r}/statuses/{sha}`]: ({ repo, params, body, sim, actor }) => {
    const sha = params['sha'] ?? '';
    const made = { sha, id: sim.nextId(), fields: { ...body }, user: actor };
    repo.statuses.push(made);
    return { status: 201, body: { id: made.id, ...made.fields } };
  },
  [`GET ${r}/commits/{ref}/statuses`]: (call) => paged(call.query, statusesOf(call)),
  [`GET ${r}/commits/{ref}/status`]: combined,
};
