// Keeps how long each stage of a launch takes, and tells the session as soon as it is over.

import type { StepReport } from '../../adapters/sandbox/sandbox.ts';
import type { Lease } from '../../adapters/store/sessions/hosts.ts';
import { noteProvisioning, type ProvisioningStage } from '../../adapters/store/sessions/provisioning.ts';
import type { FlowContext } from '../context.ts';

const buckets = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300];

export class StageWatch {
  readonly #ctx: FlowContext;
  readonly #lease: Lease;
  readonly #provider: string;
  /** How its sandbox came to be. */
  path: 'cold' | 'reopened' | 'restored' = 'cold';
  readonly #stages: ProvisioningStage[] = [];
  #step: { readonly name: string; readonly at: Date; readonly cache?: 'hit' | 'miss' } | undefined;

  /** When the step that comes next began: with what its cache has. */
  #mark: Date;

  constructor(ctx: FlowContext, lease: Lease, provider: string) {
    this.#provider = provider;
    this.#ctx = ctx;
    this.#lease = lease;
    this.#mark = ctx.runtime.now();
  }

  /** A stage that fails is kept with the time that it took, and its error thrown on. */
  async timed<T>(stage: ProvisioningStage['stage'], work: () => Promise<T>): Promise<T> {
    const at = this.#ctx.runtime.now();
    try {
      return await work();
    } finally {
      await this.#add({ stage, at: at.toISOString(), ms: this.#since(at) });
    }
  }

  /** Hears of each setup step as its commands begin. */
  onStep(): (step: StepReport) => void {
    this.#mark = this.#ctx.runtime.now();
    return ({ name, cache }) => {
      this.#closeStep();
      this.#step = { name, at: this.#mark, ...(cache !== 'none' && { cache }) };
    };
  }

  /** Runs what reports its steps. */
  async steps(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } finally {
      this.#closeStep();
      await this.#tell();
    }
  }

  #closeStep(): void {
    const step = this.#step;
    this.#step = undefined;
    if (step === undefined) return;
    const { at, ...rest } = step;
    this.#stages.push({ stage: 'setup', ...rest, at: at.toISOString(), ms: this.#since(at) });
    this.#mark = this.#ctx.runtime.now();
  }

  #since(at: Date): number {
    return Math.max(0, this.#ctx.runtime.now().getTime() - at.getTime());
  }

  async #add(stage: ProvisioningStage): Promise<void> {
    this.#stages.push(stage);
    this.#ctx.metrics
      .histogram(
        'svc_sandbox_start_seconds',
        'Time that stages of launches take.',
        ['provider', 'path', 'stage'],
        buckets,
      )
      .observe({ provider: this.#provider, path: this.path, stage: stage.stage }, stage.ms / 1_000);
    await this.#tell();
  }

  async #tell(): Promise<void> {
    await noteProvisioning(this.#ctx.db, this.#lease, this.#stages).catch((error: unknown) => {
      this.#ctx.runtime.log.warn({ err: error, sessionId: this.#lease.sessionId }, 'session.stage_not_noted');
    });
  }
}
