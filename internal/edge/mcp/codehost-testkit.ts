// For tests of the brokered code host: the simulator, a daemon whose connection leads there, and seats in sessions of
// agents with mounts.

import { generateKeyPairSync } from 'node:crypto';
import { CodehostSimulator } from '../../base/testkit/codehost-simulator.ts';
import type { SimRepository } from '../../base/testkit/codehost-state.ts';
import { createLog } from '../../base/log/log.ts';
import type { Config } from '../../base/config/config.ts';
import { createToolBench, type Seat, type ToolBench } from './mcp-testkit.ts';

export const { privateKey: appKey, publicKey: appPublicKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});

export interface CodehostBench extends ToolBench {
  readonly sim: CodehostSimulator;
  /** `acme/app`, mounted by `worker`. */
  readonly app: SimRepository;
  /** What the daemon logs, everything. */
  log(): string;
  /** An agent with these mounts: repository → capabilities; `tools`: names of its alias `code`. */
  agent(name: string, mounts: { readonly [repository: string]: object }, tools?: readonly string[]): Promise<Seat>;
  stopAll(): Promise<void>;
}

/** Every name that a mount capability serves. */
export const everything = {
  contents: 'write',
  pullRequests: 'write',
  issues: 'write',
  checks: 'write',
  actions: 'write',
  workflows: 'write',
  secrets: 'write',
  merge: 'write',
};

export async function startCodehostBench(
  options: { readonly config?: Partial<Config>; readonly logLevel?: 'trace' | 'info' } = {},
): Promise<CodehostBench> {
  const sim = await new CodehostSimulator({ appPublicKey }).start();
  let log = '';
  const attachmentHosts = [new URL(sim.origin).host];
  const bench = await createToolBench({
    log: createLog(options.logLevel ?? 'trace', { write: (line: string) => void (log += line) }),
    config: {
      allowPrivateNetwork: true,
      file: { providers: { codehost: { writeSpacingMs: 0, attachmentHosts } } },
      ...options.config,
    },
  });
  const app = await sim.repository('acme/app', { 'README.md': '# app\n', 'src/a.ts': 'export const a = 1;\n' });
  await bench.daemon.api('POST', 'P/connections', {
    provider: 'codehost',
    name: 'code',
    config: { apiUrl: sim.origin, appId: '1', installationId: '1', botLogin: 'svc-app[bot]' },
    credentials: { webhookSecret: 'a-secret-of-the-hook', privateKey: appKey },
  });
  const mountOf = ([repository, capabilities]: [string, object]) => ({
    kind: 'git',
    repository,
    mountPath: `/workspace/${repository.replace('/', '-')}`,
    auth: { kind: 'codehostApp', capabilities },
  });
  return {
    ...bench,
    sim,
    app,
    log: () => log,
    async agent(name, mounts, tools) {
      const code = { kind: 'codehost', ...(tools !== undefined && { tools }) };
      await bench.apply({ [name]: { mounts: Object.entries(mounts).map(mountOf), tools: { code } } });
      return bench.start(name);
    },
    async stopAll() {
      await bench.stop();
      await sim.stop();
    },
  };
}
