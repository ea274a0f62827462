// Looking at several engines, of which one cannot be asked, and what of the machine's own may go meanwhile.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../../adapters/engine/engine.ts';
import { type TestDaemon, startTestDaemon } from '../../base/testkit/daemon.ts';
import { isWithin } from '../../base/testkit/parsing.ts';
import type { HostPorts } from '../host-ports.ts';
import { listSandboxes, reapOwn, reapSandboxes } from './sandboxes.ts';
import { SessionHost } from './session-host.ts';

const actor = { kind: 'system', id: null, name: 'test' } as const;
const [here, boxed] = [randomUUID(), randomUUID()];

interface Answers {
  list?(): Promise<unknown>;
  reap?(owned: (ids: readonly string[]) => Promise<ReadonlySet<string>>): Promise<string[]>;
  open?(): Promise<never>;
}

/** A host whose own sandboxes are `here` and `boxed`, with an engine of its presets. */
function hostOf(docker: Answers): HostPorts {
  const own = {
    name: 'process',
    alwaysFenced: false,
    list: async () => [here, boxed].map((id) => ({ id, running: false })),
    reap: async (owned: (ids: readonly string[]) => Promise<ReadonlySet<string>>) => {
      const kept = await owned([here, boxed]);
      return [here, boxed].filter((id) => !kept.has(id));
    },
  };
  const sandboxes = async (name?: string) =>
    name === undefined
      ? { provider: own, facts: { inUse: 'process' } }
      : ((await docker.open?.()) ?? { provider: { name, alwaysFenced: true, ...docker }, facts: { inUse: name } });
  return { sandboxes, providers: ['docker'], hasLeftovers: async () => true } as unknown as HostPorts;
}

const never = (): Promise<never> => new Promise(() => undefined);
const away = async (): Promise<never> => {
  throw new EngineError('engine-unreachable', 'it is away');
};

async function within<T>(work: Promise<T>): Promise<T> {
  const late = sleep(20_000, undefined, { ref: false }).then(() => assert.fail('it is waited for'));
  return Promise.race([work, late]);
}

/** Two sessions that have ended: one ran in a box, the other one on the machine. */
async function endedSessions({ database }: TestDaemon): Promise<void> {
  await database.db.query(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at,
         ended_at, epoch, sandbox)
     select s.id, p.id, gen_random_uuid(), 'a', 1, 'manual', 'archived', 't', now(), now(), now(), 1,
         jsonb_build_object('provider', s.provider)
       from svc.projects p, (values ($1::uuid, 'process'), ($2::uuid, 'docker')) s (id, provider)`,
    [here, boxed],
  );
}

test('an engine that fails, or says nothing, is named, and what the others have is shown in time', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  try {
    for (const list of [away, never]) {
      const ctx = { ...daemon.ctx, host: hostOf({ list }) };
      const { items, unreachable } = await within(listSandboxes(ctx, '/', undefined));
      assert.deepEqual(
        items.map((one) => [one.session, one.state]),
        [here, boxed].toSorted().map((id) => [id, 'left']),
      );
      assert.match(unreachable.join(), /^docker on [^,]+$/);
    }
  } finally {
    await daemon.stop();
  }
});

test('what sessions left on the machine goes though an engine cannot be asked, and what says whose its boxes are stays', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  try {
    await endedSessions(daemon);
    // One that never opened is told of where it is shown what sessions run in.
    for (const docker of [{ reap: away }, { reap: never }, { open: away }]) {
      const ctx = { ...daemon.ctx, host: hostOf(docker) };
      const { reaped, unreachable } = await within(reapSandboxes(ctx, '/', undefined, actor));
      assert.deepEqual(reaped, [here], Object.keys(docker).join());
      assert.match(unreachable.join(), 'open' in docker ? /^$/ : /^docker on [^,]+$/);
    }
    const well = { ...daemon.ctx, host: hostOf({ reap: async () => [boxed] }) };
    assert.deepEqual((await reapOwn(well)).toSorted(), [here, boxed].toSorted());
  } finally {
    await daemon.stop();
  }
});

test('a host that stops does not wait for an engine that is to remove what is left', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  let host: SessionHost | undefined;
  try {
    const asked = Promise.withResolvers<void>();
    const reap = (): Promise<never> => {
      asked.resolve();
      return never();
    };
    const ports = { ...hostOf({ reap }), program: async () => ({ missing: 'none' }), maxSessions: 1, startsAtOnce: 1 };
    const own = ports as unknown as HostPorts;
    host = new SessionHost({ ...daemon.ctx, host: own }, own);
    await host.start();
    await within(asked.promise);
    const begun = performance.now();
    await host.stop();
    const ms = performance.now() - begun;
    assert.ok(isWithin(ms, 6_000), `after ${Math.round(ms)} ms`);
  } finally {
    await host?.stop();
    await daemon.stop();
  }
});
