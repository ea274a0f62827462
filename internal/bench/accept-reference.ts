// The bare server that accepting is held against: it verifies, parses and inserts, and does nothing else. `batch` gathers
// what arrives while a commit is pending; `named` is one prepared INSERT a request; `asked` is one prepared statement a
// request, which inserts and adds the job that routes it. Started by bench/accept as a program of its own:
// `node accept-reference.ts <batch|named|asked> <database> <secret>`; prints its port.

import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';

const [mode, url, secret] = process.argv.slice(2) as [string, string, string];
const inFlightMax = 3;
const batchMax = 256;
const pool = new pg.Pool({ connectionString: url, max: mode === 'batch' ? inFlightMax : 16 });
// Given as text, a key is imported anew for every signature.
const signingKey = createSecretKey(Buffer.from(secret));
const insert = 'insert into bench.events (dedup, payload) values ($1::text, $2::jsonb) on conflict (dedup) do nothing';
const single =
  mode === 'named'
    ? insert
    : `with made as (${insert} returning id)
       select graphile_worker.add_job('bench.route', json_build_object('event', id)) from made`;

interface Waiting {
  readonly key: string;
  readonly text: string;
  readonly response: ServerResponse;
}
let queue: Waiting[] = [];
let inFlight = 0;

function answer(response: ServerResponse, status: number): void {
  const body = status === 202 ? '{"created":true}' : '{}';
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
}

async function write(batch: readonly Waiting[]): Promise<void> {
  await pool.query({
    name: 'batch',
    text: `insert into bench.events (dedup, payload) select * from unnest($1::text[], $2::jsonb[])
           on conflict (dedup) do nothing`,
    values: [batch.map((one) => one.key), batch.map((one) => one.text)],
  });
  for (const one of batch) answer(one.response, 202);
}

function flush(): void {
  while (queue.length > 0 && inFlight < inFlightMax && (inFlight === 0 || queue.length >= 16)) {
    const batch = queue.slice(0, batchMax);
    queue = queue.slice(batchMax);
    inFlight += 1;
    const ended = (): void => {
      inFlight -= 1;
      flush();
    };
    write(batch).then(ended, (error: unknown) => {
      console.error(error);
      process.exit(1);
    });
  }
}

function take(raw: Buffer, signature: string | undefined, response: ServerResponse): void {
  const given = Buffer.from(signature ?? '', 'hex');
  const wanted = createHmac('sha256', signingKey).update(raw).digest();
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return answer(response, 401);
  const text = raw.toString('utf8');
  const key = (JSON.parse(text) as { dedupKey: string }).dedupKey;
  if (mode === 'batch') {
    queue.push({ key, text, response });
    setImmediate(flush);
    return;
  }
  pool.query({ name: 'one', text: single, values: [key, text] }).then(
    () => answer(response, 202),
    () => answer(response, 500),
  );
}

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () =>
    take(Buffer.concat(chunks), request.headers['x-svc-signature-256'] as string | undefined, response),
  );
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
process.on('SIGTERM', () => process.exit(0));
