import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { sessionsOf, settled } from './routing-testkit.ts';

describe('a project that comes on board', () => {
  let daemon: TestDaemon;
  before(async () => {
    daemon = await startTestDaemon();
  });
  after(() => daemon.stop());

  const runnable = {
    harness: 'harness-a',
    environment: { name: 'default', image: { kind: 'preset', name: 'base' } },
  };
  const routing = { kind: 'spawn' };
  const message = 'hello {{ project.slug }}';
  const greets = { ...runnable, triggers: [{ event: 'svc.project.onboarded', routing, message }] };
  const apply = (project: string, agents: { readonly [name: string]: object }, more: object = {}) => {
    const files = Object.entries(agents).map(([name, spec]) => ({
      path: `.svc/agents/${name}.yaml`,
      content: JSON.stringify({ name, ...spec }),
    }));
    return daemon.api('POST', `/api/v1/orgs/default/projects/${project}/apply`, { files, ...more });
  };
  const onboarded = async (project: string): Promise<number> => {
    const { body } = await daemon.api(
      'GET',
      `/api/v1/orgs/default/projects/${project}/events?key=svc.project.onboarded`,
    );
    return (body['items'] as unknown as unknown[]).length;
  };

  for (const project of ['default', 'made']) {
    it(`starts whoever waits for that, once: ${project}`, async () => {
      if (project === 'made') {
        assert.equal((await daemon.api('POST', '/api/v1/orgs/default/projects', { slug: project })).status, 201);
      }
      assert.equal((await apply(project, { greets: { ...greets, harness: 'none' } })).status, 422);
      assert.equal((await apply(project, { greets }, { dryRun: true })).status, 200);
      assert.equal(await onboarded(project), 0, 'nothing was applied yet');
      const applied = await Promise.all([
        apply(project, { greets }),
        apply(project, { greets }),
        apply(project, { greets }),
      ]);
      assert.deepEqual(applied.map((one) => String(one.body['status'])).toSorted(), [
        'applied',
        'unchanged',
        'unchanged',
      ]);
      assert.equal((await apply(project, { greets, other: runnable })).body['status'], 'applied');
      await settled(daemon.ctx.db, 30_000);
      assert.equal(await onboarded(project), 1);
      const greeted = (await sessionsOf(daemon.ctx.db, 'greets')).flatMap((one) =>
        one.messages.map(({ text }) => text),
      );
      assert.deepEqual(greeted.filter((text) => text.includes(`hello ${project}`)).length, 1, JSON.stringify(greeted));
    });
  }
});
