// A session asks for a file whose address may stand in the event that started it: as large as the code host's door takes, and
// full of addresses, the event is looked through within the bounds of svcd.hostile.fuzz.test.ts.

import assert from 'node:assert/strict';
import { createHash, createHmac, randomBytes, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { type MeasuredDaemon, startMeasuredDaemon } from '../../internal/base/testkit/measured-daemon.ts';
import { applyAgents, settled } from '../../internal/flows/routing/routing-testkit.ts';
import { boundsOf } from './hostile-bounds-testkit.ts';
import { mebibyte } from './hostile-testkit.ts';

const secret = 'the secret of the connection';
let daemon: MeasuredDaemon;
before(async () => {
  daemon = await startMeasuredDaemon({
    // Its sessions wait, so that the test can sit in the place of one.
    SVC_HARNESS_B_COMMAND: JSON.stringify(['/nowhere/harness-b']),
    SVC_SANDBOX: 'process',
    SVC_LOG_LEVEL: 'warn',
  });
});
after(() => daemon.stop());
const { isBounded } = boundsOf(() => daemon);

const post = async (path: string, body: string, headers: { readonly [name: string]: string }): Promise<string> => {
  const response = await fetch(`${daemon.url}${path}`, { method: 'POST', body, headers });
  return response.text();
};

describe('a delivery that is full of addresses', () => {
  it('is looked through for one that a session wants to download', async () => {
    const hub = await daemon.api('POST', 'P/connections', {
      provider: 'codehost',
      name: 'addresses',
      credentials: { webhookSecret: secret },
    });
    const messageOf = (at: number): string => `https://github.com/a/${at} `.repeat(500);
    const commits = Array.from({ length: 2_000 }, (_, at) => ({ id: String(at), message: messageOf(at) }));
    const repository = { id: 1, full_name: 'acme/app' };
    const text = JSON.stringify({ ref: 'refs/heads/main', repository, commits });
    assert.ok(text.length < 25 * mebibyte);
    const mac = createHmac('sha256', secret).update(text).digest('hex');
    const sent = await post(`/api/v1/intake/codehost/${hub.body['id']}`, text, {
      'x-github-event': 'push',
      'x-github-delivery': randomUUID(),
      'x-hub-signature-256': `sha256=${mac}`,
    });
    await settled(daemon.database.db);
    const event = (JSON.parse(sent) as { eventRecordId: string }).eventRecordId;
    await applyAgents(daemon.api, {
      downloading: { harness: 'harness-b', tools: { code: { kind: 'codehost', tools: ['download_attachment'] } } },
    });
    const { body } = await daemon.api('POST', 'P/agents/downloading/sessions', { message: 'wait' });
    const token = randomBytes(32).toString('base64url');
    const hash = createHash('sha256').update(token).digest();
    const is = 'update svc.sessions set token_hash = $2::bytea, event_id = $3::uuid where id = $1::uuid';
    await daemon.database.db.query(is, [String(body['id']), hash, event]);
    await isBounded('a large event, looked through', async () => {
      const url = 'https://github.com/user-attachments/assets/none';
      const params = { name: 'download_attachment', arguments: { url } };
      const answer = await post(
        `/api/v1/sessions/${String(body['id'])}/mcp/code`,
        JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
        {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
      );
      assert.match(answer, /only addresses of the event/);
    });
  });
});
