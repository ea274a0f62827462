// Sealing and resolution. A value is sealed and opened in the time of a few bare encryptions (four are the least: data
// key and value, both ways), a seal with its opening counting once; the fifty secrets of a launch are one statement.

import { createCipheriv, createSecretKey, randomBytes } from 'node:crypto';
import { createSealer, parseMasterKeys } from '../adapters/crypto/crypto.ts';
import { takeResolved } from '../adapters/store/secrets/secret-resolution.ts';
import { putSecret } from '../adapters/store/secrets/secrets.ts';
import { createBench } from '../flows/sync/apply-testkit.ts';
import { type Bench, type Bencher, median, medianMs, ms } from './harness.ts';

const rounds = 30_000;
const secrets = 50;

const sealer = createSealer(parseMasterKeys(`1:${randomBytes(32).toString('base64')}`));

async function seals(bench: Bencher): Promise<void> {
  const value = Buffer.from(randomBytes(30).toString('base64'));
  const binding = { orgId: 'o'.repeat(36), projectId: 'p'.repeat(36), name: 'API_KEY', use: 'secret' } as const;
  const key = createSecretKey(randomBytes(32));
  // Processor time: what one core does in a second, whatever else the machine does.
  const used = (work: () => void): number => {
    const before = process.cpuUsage();
    for (let round = 0; round < rounds; round += 1) work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  };
  const sealed: number[] = [];
  const bare: number[] = [];
  for (let turn = -1; turn < 5; turn += 1) {
    const ours = used(() => sealer.open(sealer.seal(value, binding), binding).fill(0));
    const theirs = used(() => {
      const cipher = createCipheriv('aes-256-gcm', key, randomBytes(12), { authTagLength: 16 });
      Buffer.concat([cipher.update(value), cipher.final(), cipher.getAuthTag()]);
    });
    if (turn < 0) continue;
    sealed.push(ours);
    bare.push(theirs);
  }
  const what = `seal and open / one bare encryption, ${rounds} times, processor time`;
  // Four are the least, and a quarter more is left for all else. It was eight times, and one second for all of them.
  bench.ratio(what, ms(median(sealed)), medianMs(bare), 5);
}

async function resolves(bench: Bencher): Promise<void> {
  const project = await createBench();
  bench.atEnd(() => project.close());
  const { db, orgId, projectId } = project;
  const now = project.ctx.runtime.now();
  const names = Array.from({ length: secrets }, (_, n) => `SECRET_${n}`);
  const plain = { description: null, protected: true, injection: null, expiresAt: null, idleExpirySeconds: null };
  for (const name of names) {
    const sealed = sealer.seal(Buffer.from(name), { orgId, projectId, name, use: 'secret' });
    await putSecret(db, { orgId, projectId }, { name, ...sealed, ...plain }, { now });
  }
  const before = db.statements();
  const wanted = names.map((name) => ({ name, required: true, variables: [name], tools: [] }));
  const { sealed } = await takeResolved(db, { orgId, projectId, wanted, sessionId: 's', edge: false, now });
  if (sealed.length !== secrets) throw new Error(`${sealed.length} of ${secrets} secrets were resolved`);
  bench.atMost(`statements for the ${secrets} secrets of a launch`, db.statements() - before, 1, 'statements');
}

export const bench: Bench = {
  name: 'secrets',
  title: 'sealing, opening and resolving',
  run: async (bench) => {
    await seals(bench);
    await resolves(bench);
  },
};
