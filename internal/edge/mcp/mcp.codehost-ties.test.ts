import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import type { JsonBody } from '../../base/testkit/daemon.ts';
import { type CodehostBench, everything, startCodehostBench } from './codehost-testkit.ts';
import { settled } from '../../flows/routing/routing-testkit.ts';
import type { Seat } from './mcp-testkit.ts';

const at = { owner: 'acme', repo: 'app' };
const ann = { login: 'ann', id: 7, type: 'User' };

describe('what a session makes and says at the code host is tied to it when it is done', () => {
  let bench: CodehostBench;
  let seat: Seat;
  before(async () => {
    bench = await startCodehostBench();
    seat = await bench.agent('worker', { 'acme/app': everything });
  });
  after(() => bench.stopAll());
  const done = async (tool: string, input: object) => {
    const answer = await seat.call(tool, { ...at, ...input }, 'code');
    assert.equal(answer.isError, false, `${tool}: ${answer.text}`);
    return answer.value;
  };
  /** Who is tied to what somebody else does there, of which the delivery says nothing. */
  const tiedTo = async (event: string, parts: object): Promise<unknown[]> => {
    const repository = { id: 1, full_name: 'acme/app', name: 'app', owner: { login: 'acme' } };
    const raw = JSON.stringify({ repository, sender: ann, ...parts });
    const { body: connection } = await bench.daemon.api('GET', 'P/connections/code');
    const answer = await fetch(`${bench.daemon.url}/api/v1/intake/codehost/${String(connection['id'])}`, {
      method: 'POST',
      headers: {
        'x-github-event': event,
        'x-github-delivery': randomUUID(),
        'x-hub-signature-256': `sha256=${createHmac('sha256', 'a-secret-of-the-hook').update(raw).digest('hex')}`,
      },
      body: raw,
    });
    const { eventRecordId } = (await answer.json()) as { readonly eventRecordId: string };
    await settled(bench.daemon.ctx.db);
    const { body } = await bench.daemon.api('GET', `P/events/${eventRecordId}`);
    const listed = body['payload']?.['svc']?.['attributions'] as unknown as readonly JsonBody[] | undefined;
    return (listed ?? []).map(({ sessionId, relation }) => [sessionId, relation]);
  };
  const pull = (number: unknown) => ({
    action: 'synchronize',
    pull_request: { number, head: { sha: 'a' }, base: { ref: 'main' }, user: ann, body: '' },
  });

  it('a pull request that it opened, an issue, and what it commented on', async () => {
    await done('create_branch', { branch: 'topic' });
    await bench.app.git.commit({ 'src/b.ts': 'export const b = 2;\n' }, { branch: 'topic' });
    const { number } = await done('create_pull_request', { title: 'More', head: 'topic', base: 'main' });
    assert.deepEqual(await tiedTo('pull_request', pull(number)), [[seat.session, 'created']]);

    const { number: filed } = await done('issue_write', { method: 'create', title: 'Found' });
    const issue = (of: unknown) => ({ action: 'labeled', issue: { number: of, user: ann, body: '' } });
    assert.deepEqual(await tiedTo('issues', issue(filed)), [[seat.session, 'created']]);

    const other = await bench.agent('other', { 'acme/app': everything });
    const said = await other.call('add_issue_comment', { ...at, issue_number: filed, body: 'Mine' }, 'code');
    assert.equal(said.isError, false, said.text);
    assert.deepEqual(
      new Set((await tiedTo('issues', issue(filed))).map(String)),
      new Set([`${seat.session},created`, `${other.session},posted`]),
    );
    assert.deepEqual(await tiedTo('pull_request', pull(999)), []);
  });
});
