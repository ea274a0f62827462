// Keeps how long each stage of a launch takes, and tells the session as soon as it is over.

import type { StepReport } from '../../adapters/sandbox/sandbox.ts';
import type { Lease } from '../../adapters/store/sessions/hosts.ts';
import { noteProvisioning, type ProvisioningStage } from '../../adapters/store/sessions/provisioning.ts';
import type { FlowContext } from '../context.ts';

const buckets = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300];

type Stage = ProvisioningStage['stage'];

/** A stage that takes longer is told while it goes on. */
const goingMs = 1_000;

interface Step {
  readonly name: string;
  readonly at: Date;
  readonly cache?: 'hit' | 'miss';
}

export class StageWatch {
  readonly #ctx: FlowContext;
  readonly #lease: Lease;
  readonly #provider: string;
  /** How its sandbox came to be. */
  path: 'cold' | 'reopened' | 'restored' = 'cold';
  readonly #stages: ProvisioningStage[] = [];
  #step: Step | undefined;
  #going: NodeJS.Timeout | undefined;

  #told: Promise<void> = Promise.resolve();
  /** When the step that comes next began: with what its cache has. */
  #mark: Date;

  constructor(ctx: FlowContext, lease: Lease, provider: string) {
    this.#provider = provider;
    this.#ctx = ctx;
    this.#lease = lease;
    this.#mark = ctx.runtime.now();
  }

  /**
   * Stages one after another: each begins where the one before ends, the first with the work; it is all `starting` where
   * none is named. What was begun as `starting` and turns out to wait for a machine or a claim was that all along.
   */
  async staged<T>(work: (begin: (stage: Stage) => void) => Promise<T>): Promise<T> {
    let current: { stage: Stage; readonly at: Date } | undefined;
    const first = this.#ctx.runtime.now();
    const over: ProvisioningStage[] = [];
    const end = (): void => {
      const { stage, at } = current ?? { stage: 'starting', at: first };
      over.push({ stage, at: at.toISOString(), ms: this.#since(at) });
    };
    // One that is over soon is told with its end alone.
    const tellGoing = (): void => {
      const { stage, at } = current ?? { stage: 'starting', at: first };
      void this.#tell([...this.#stages, ...over, { stage, at: at.toISOString(), ms: this.#since(at) }]);
    };
    let timer = setTimeout(tellGoing, goingMs);
    try {
      return await work((stage) => {
        if (stage === current?.stage) return;
        if (current?.stage === 'starting' && (stage === 'scheduling' || stage === 'claiming')) {
          current.stage = stage;
          return;
        }
        if (current !== undefined) end();
        current = { stage, at: current === undefined ? first : this.#ctx.runtime.now() };
        clearTimeout(timer);
        timer = setTimeout(tellGoing, goingMs);
      });
    } finally {
      clearTimeout(timer);
      end();
      await this.#add(over);
    }
  }

  /** A stage that fails is kept with the time that it took, and its error thrown on. */
  timed<T>(stage: Stage, work: () => Promise<T>): Promise<T> {
    return this.staged((begin) => {
      begin(stage);
      return work();
    });
  }

  /** Hears of each setup step as its commands begin. */
  onStep(): (step: StepReport) => void {
    this.#mark = this.#ctx.runtime.now();
    return ({ name, cache }) => {
      this.#closeStep();
      const step: Step = { name, at: this.#mark, ...(cache !== 'none' && { cache }) };
      this.#step = step;
      this.#going = setTimeout(() => void this.#tell([...this.#stages, this.#stageOf(step)]), goingMs);
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
    clearTimeout(this.#going);
    const step = this.#step;
    this.#step = undefined;
    if (step === undefined) return;
    this.#stages.push(this.#stageOf(step));
    this.#mark = this.#ctx.runtime.now();
  }

  #stageOf({ at, ...rest }: Step): ProvisioningStage {
    return { stage: 'setup', ...rest, at: at.toISOString(), ms: this.#since(at) };
  }

  #since(at: Date): number {
    return Math.max(0, this.#ctx.runtime.now().getTime() - at.getTime());
  }

  async #add(stages: readonly ProvisioningStage[]): Promise<void> {
    this.#stages.push(...stages);
    const help = 'Time that stages of launches take.';
    const labels = ['provider', 'path', 'stage'] as const;
    const seconds = this.#ctx.metrics.histogram('svc_sandbox_start_seconds', help, labels, buckets);
    for (const { stage, ms } of stages)
      seconds.observe({ provider: this.#provider, path: this.path, stage }, ms / 1_000);
    await this.#tell();
  }

  /** One after another, so that the last one said stands. */
  async #tell(stages: readonly ProvisioningStage[] = this.#stages): Promise<void> {
    const said = [...stages];
    this.#told = this.#told.then(() =>
      noteProvisioning(this.#ctx.db, this.#lease, said).catch((error: unknown) => {
        this.#ctx.runtime.log.warn({ err: error, sessionId: this.#lease.sessionId }, 'session.stage_not_noted');
      }),
    );
    await this.#told;
  }
}
