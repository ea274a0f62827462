// One fake cluster for the tests of a file, with engines on it that have the rights of the Role in deploy/ and no more.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { FakeCluster, type Rule } from '../../../testdata/kubernetes/cluster.ts';
import { BRIDGE_ARGV, FIRST_ARGV } from '../../../testdata/kubernetes/echo.ts';
import { type Runner, runnerOf, PodWays } from '../../../testdata/kubernetes/runner.ts';
import { kubeconfigAccess } from './kubernetes-access.ts';
import { KubernetesEngine, type KubernetesOptions } from './kubernetes.ts';
import { type BoxRef, type BoxSpec, EngineError, type EngineErrorCode, type ResolvedImage } from './types.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../../..');
export const digestText = `sha256:${'a'.repeat(64)}`;
export const imageTable: ResolvedImage = { reference: `registry.example.com/node@${digestText}`, digest: digestText };
export const installation = 'installation-1';

/** The documents of deploy/kubernetes that are about sandboxes. */
export const sandboxManifests = ['sandboxes.yaml', 'dial.yaml']
  .map((name) => readFileSync(join(root, 'deploy/kubernetes', name), 'utf8'))
  .flatMap((text) => parseAllDocuments(text))
  .map((one) => one.toJS() as { kind: string; rules?: Rule[]; spec?: object; metadata: { name: string } });
export const roleRules: readonly Rule[] = sandboxManifests.find(({ kind }) => kind === 'Role')?.rules ?? [];

const works = (file: string, ...args: string[]): Promise<boolean> =>
  run(file, args).then(
    () => true,
    () => false,
  );
/** Why pods cannot run here; false where they can. */
export const whyNoPods = async (): Promise<string | false> =>
  process.getuid?.() === 0 && (await works('bwrap', '--version'))
    ? false
    : 'the pods of the fake cluster need root and bubblewrap';
export const whyNoKubectl = async (): Promise<string | false> =>
  (await works('kubectl', 'version', '--client')) ? false : 'kubectl is not installed';

/** What `assert.rejects` takes. */
export const refused = (code: EngineErrorCode, words: RegExp) => (error: unknown) => {
  assert.ok(error instanceof EngineError, String(error));
  assert.equal(error.code, code, error.message);
  assert.match(error.message, words);
  return true;
};
export const until = async (what: string, holds: () => boolean | Promise<boolean>): Promise<void> => {
  for (const end = performance.now() + 20_000; performance.now() < end; await sleep(20)) if (await holds()) return;
  assert.fail(what);
};
/** What comes back for a line, over a wire of its own. */
export async function echoed(of: KubernetesEngine, ref: BoxRef, line: string): Promise<string> {
  const wire = await of.wire(ref, BRIDGE_ARGV);
  wire.write(line);
  let text = '';
  for await (const part of wire) {
    text += String(part);
    if (text.length >= line.length) break;
  }
  wire.destroy();
  return text;
}

export class Scene {
  readonly cluster: FakeCluster;
  readonly folder: string;
  /** What pods that dial are let out to. */
  readonly ways: PodWays;
  readonly #opened: KubernetesEngine[] = [];
  #count = 0;

  private constructor(cluster: FakeCluster, folder: string, ways: PodWays) {
    this.cluster = cluster;
    this.folder = folder;
    this.ways = ways;
  }

  /** `shown`: directories of this machine that are in every image. `by`: what runs the pods in place of bubblewrap. */
  static async start(shown: readonly string[] = [], by?: (ways: PodWays) => Runner): Promise<Scene> {
    const folder = await mkdtemp(join(tmpdir(), 'svc-kubernetes-'));
    const ways = new PodWays();
    const runner = by?.(ways) ?? runnerOf(shown, ways);
    const cluster = await FakeCluster.start({ runner, rules: roleRules });
    cluster.kubelet.images.set(imageTable.reference, imageTable.reference);
    return new Scene(cluster, folder, ways);
  }

  count(): number {
    return (this.#count += 1);
  }

  box(over: Partial<BoxSpec> = {}): BoxSpec {
    return {
      owner: { installation: installation, session: `s${this.count()}`, epoch: 1 },
      image: imageTable,
      argv: FIRST_ARGV,
      purpose: 'session',
      directories: [{ path: '/home/user' }, { path: '/workspace' }],
      readOnlyPaths: [],
      resources: { cpuCount: 1, memoryMB: 512 },
      fenced: true,
      ...over,
    };
  }

  /** The path of a kubeconfig; `user` is what stands under its user. */
  async kubeconfig(user?: object): Promise<string> {
    const path = join(this.folder, `config-${this.count()}`);
    await writeFile(path, JSON.stringify(this.cluster.kubeconfig(user as { [key: string]: unknown })), { mode: 0o600 });
    return path;
  }

  async open(over: Partial<KubernetesOptions> = {}): Promise<KubernetesEngine> {
    const access = over.access ?? kubeconfigAccess(await this.kubeconfig());
    const timeouts = { schedulingMs: 1_500, pullingMs: 1_500 };
    const made = new KubernetesEngine({ namespace: 'svc', timeouts, now: Date.now, ...over, access });
    this.#opened.push(made);
    return made;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#opened.map((one) => one.close()));
    await this.cluster.stop();
    await rm(this.folder, { recursive: true, force: true });
  }
}
