// What sessions left with several engines, of which one cannot be asked.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { EngineError } from '../../adapters/engine/engine.ts';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import type { HostPorts } from '../host-ports.ts';
import { reapOwn } from './sandboxes.ts';

test('an engine that fails keeps nothing of the others, and is told of in the end', async () => {
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
    const sandboxes = async (name?: string) => ({
      provider: name === 'docker' ? { alwaysFenced: true, reap: away } : { alwaysFenced: false, reap },
      facts: { inUse: name ?? 'process' },
    });
    const host = { sandboxes, providers: ['docker'], hasLeftovers: async () => true } as unknown as HostPorts;
    await assert.rejects(reapOwn({ ...daemon.ctx, host }), /it is away/);
    const exposed = await daemon.ctx.metrics.registry.metrics();
    assert.match(exposed, /svc_sandbox_reaped_total 1\b/);
  } finally {
    await daemon.stop();
  }
});
