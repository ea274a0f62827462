// For tests of the error tracker: a daemon that knows the simulator, its organization and projects, and the steps of a setup.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ApiAnswer, type JsonBody, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { ErrtrackSimulator, type SimOrganization } from '../../internal/base/testkit/errtrack-provider.ts';
import { createToolBench, type ToolBench } from '../../internal/edge/mcp/mcp-testkit.ts';

export const setupPath = '/api/v1/connections/errtrack/installations';
export const projectsPath = '/api/v1/connections/errtrack/projects';
let next = 1;
/** An organization at the provider with so many projects. */
export const organization = (count: number, region: 'us' | 'de' = 'us'): SimOrganization => {
  const id = 10_000 + next++;
  const projects = Array.from({ length: count }, (_, index) => ({ id: `${id}${index}`, slug: `p${index}-${id}` }));
  return { id, slug: `org-${id}`, projects, region };
};

export interface Option {
  readonly id: string;
  readonly name: string;
  readonly projects: readonly { readonly id: string; readonly slug: string }[];
  readonly selectedProjectIds: readonly string[];
}
export interface Consent {
  readonly installationId: string;
  readonly code: string;
}
export interface ErrtrackBench {
  readonly simulator: ErrtrackSimulator;
  readonly bench: ToolBench;
  readonly daemon: TestDaemon;
  readonly orgId: string;
  readonly projectId: string;
  readonly second: string;
  /** Holds the application's secret. */
  readonly secretFile: string;
  readonly scope: { readonly organizationId: string; readonly projectId: string };
  start(more?: object): Promise<{ readonly id: string; readonly state: string; readonly body: JsonBody }>;
  callback(state: string, consent: Consent): Promise<ApiAnswer>;
  options(projectId?: string): Promise<readonly Option[]>;
  stop(): Promise<void>;
}

export async function startErrtrackBench(): Promise<ErrtrackBench> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-errtrack-'));
  const simulator = await ErrtrackSimulator.start();
  writeFileSync(join(dir, 'secret'), `${ErrtrackSimulator.clientSecret}\n`);
  const file = { providers: { errtrack: simulator.section(join(dir, 'secret')) } };
  const bench = await createToolBench({ config: { file, allowPrivateNetwork: true } });
  const { daemon } = bench;
  const orgId = String((await daemon.api('GET', '/api/v1/orgs/default')).body['id']);
  const projectId = String((await daemon.api('GET', 'P')).body['id']);
  const made = await daemon.api('POST', '/api/v1/orgs/default/projects', { slug: 'second', name: 'Second' });
  const scope = { organizationId: orgId, projectId };
  return {
    ...{ simulator, bench, daemon, orgId, projectId, scope, second: String(made.body['id']) },
    secretFile: join(dir, 'secret'),
    async start(more = {}) {
      const { status, body, headers } = await daemon.api('POST', setupPath, { ...scope, ...more });
      assert.equal(status, 201, JSON.stringify(body));
      assert.equal(headers.get('cache-control'), 'no-store');
      assert.equal(headers.get('referrer-policy'), 'no-referrer');
      const url = new URL(String(body['authorizationUrl']));
      return { id: String(body['attemptId']), state: String(url.searchParams.get('state')), body };
    },
    callback: (state, consent) => daemon.api('POST', `${setupPath}/callback`, { state, ...consent }),
    async options(of = projectId) {
      const { body } = await daemon.api('GET', `${projectsPath}?organizationId=${orgId}&projectId=${of}`);
      return body['items'] as unknown as Option[];
    },
    async stop() {
      await bench.stop();
      await simulator.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
