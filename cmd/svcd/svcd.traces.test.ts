// Traces go where the variables of OpenTelemetry say, and are of whom they say.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { apiClient, readClientFile, spawnDaemon, tempDataDir } from '../../internal/base/testkit/daemon.ts';

interface Sent {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly { key: string; value: { stringValue?: string } }[] };
  }[];
}

test('a trace is of the service and its attributes that the environment names, and of none where it is switched off', async (t) => {
  const sent: Sent[] = [];
  const collector = createServer((request, response) => {
    void text(request).then((body) => {
      sent.push(JSON.parse(body) as Sent);
      response.end('{}');
    });
  });
  await new Promise<void>((resolve) => void collector.listen(0, '127.0.0.1', resolve));
  const data = await tempDataDir();
  t.after(async () => {
    collector.close();
    await data.remove();
  });
  const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
  /** What was sent while a daemon with these variables took an event. */
  async function sentBy(env: { readonly [name: string]: string }): Promise<readonly Sent[]> {
    sent.length = 0;
    const daemon = spawnDaemon({ dataDir: data.path, env: { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, ...env } });
    const { url } = await daemon.ready;
    const api = apiClient(url, readClientFile(data.path).token);
    const trigger = { event: 'webhook.received', endpoint: 'hook', auth: { kind: 'none' }, routing: { kind: 'spawn' } };
    const environment = { name: 'default', image: { kind: 'preset', name: 'base' } };
    const content = JSON.stringify({ name: 'a', harness: 'harness-a', environment, triggers: [trigger] });
    const applied = await api('POST', 'P/apply', { files: [{ path: '.svc/agents/a.json', content }] });
    assert.equal(applied.status, 200, JSON.stringify(applied.body));
    const { body } = await api('GET', 'P/endpoints/hook');
    const ingest = new URL(String(body['ingestUrl'])).pathname;
    const { body: taken } = await api('POST', ingest, {}, { token: null });
    const isRouted = async () =>
      (await api('GET', `P/events/${String(taken['eventRecordId'])}`)).body['routerStatus'] === ('routed' as never);
    for (let tries = 0; tries < 2_400 && !(await isRouted()); tries += 1) await sleep(50);
    // What was noted last is sent before it ends.
    assert.deepEqual(await daemon.kill('SIGTERM'), { code: 0, signal: null }, daemon.stderr());
    return [...sent];
  }
  const named = await sentBy({
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=staging,service.namespace=agents',
    OTEL_SERVICE_NAME: 'our-svc',
  });
  const [{ resource } = assert.fail('nothing was sent')] = named.flatMap(({ resourceSpans }) => resourceSpans);
  const of = Object.fromEntries(resource.attributes.map(({ key, value }) => [key, value.stringValue]));
  assert.deepEqual(
    [of['service.name'], of['deployment.environment'], of['service.namespace']],
    ['our-svc', 'staging', 'agents'],
  );
  assert.match(String(of['svc.roles']), /api/);
  assert.deepEqual(await sentBy({ OTEL_SDK_DISABLED: 'true' }), []);
  assert.deepEqual(await sentBy({ OTEL_TRACES_EXPORTER: 'none' }), []);
});
