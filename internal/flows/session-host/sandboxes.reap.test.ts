// What sessions left with several engines, of which one cannot be asked.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { EngineError } from '../../adapters/engine/engine.ts';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import type { HostPorts } from '../host-ports.ts';
import { reapOwn } from './sandboxes.ts';

test('an engine that fails keeps nothing of another one, whose its boxes are stays known here, and it is told of in the end', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  try {
    const left = [randomUUID(), randomUUID()];
    const away = async (): Promise<never> => {
      throw new EngineError('engine-unreachable', 'it is away');
    };
    const reap = async (
      owned: (ids: readonly string[]) => Promise<ReadonlySet<string>>,
      failed: (id: string, error: unknown) => void,
    ): Promise<string[]> => {
      const kept = await owned(left);
      failed(left[1] ?? '', new Error('device or resource busy'));
      return left.filter((id) => id !== left[1] && !kept.has(id));
    };
    let isAway = true;
    const here: string[] = [];
    const process = async (owned: (ids: readonly string[]) => Promise<ReadonlySet<string>>): Promise<string[]> => {
      const kept = await owned(left);
      here.push(...left.filter((id) => !kept.has(id)));
      return here;
    };
    const sandboxes = async (name?: string) => ({
      provider:
        name === undefined
          ? { alwaysFenced: false, reap: process }
          : { alwaysFenced: true, reap: name === 'docker' && isAway ? away : reap },
      facts: { inUse: name ?? 'process' },
    });
    const providers = ['docker', 'podman'];
    const host = { sandboxes, providers, hasLeftovers: async () => true } as unknown as HostPorts;
    await assert.rejects(reapOwn({ ...daemon.ctx, host }), /it is away/);
    assert.match(await daemon.ctx.metrics.registry.metrics(), /svc_sandbox_reaped_total 1\b/);
    assert.deepEqual(here, []);
    isAway = false;
    assert.deepEqual(await reapOwn({ ...daemon.ctx, host }), [left[0]]);
    assert.deepEqual(here, [left[0]], 'what tells whose the other box is stays');
  } finally {
    await daemon.stop();
  }
});
