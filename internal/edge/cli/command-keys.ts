// `svc keys …`: master keys by version, and the rotation of what they seal. No key passes through here.

import * as keys from '../../../schemas/api/keys.ts';
import { type Client, connect } from './client.ts';
import { refusal } from './failure.ts';
import { rowOf, type Row } from './lists.ts';
import { patiently } from './patience.ts';
import { pause } from './sse.ts';
import { clean, table } from './text.ts';
import type { Call, Handler } from './types.ts';

const pollMs = 200;

export const keysList: Handler = async (call) => {
  const client = await connect(call);
  const report = await client.call(keys.getKeys);
  call.screen.emit(report, () => versionsText(call, report));
  return 0;
};

function versionsText(call: Call, report: keys.KeyReport): string {
  const rows = report.versions.map((version) => rowOf(version));
  const { paint, width } = call.screen;
  const cells = rows.map((row) => [
    row.text('version'),
    row.at('due') === true ? { text: `${row.text('status')}, due`, colour: 'yellow' as const } : row.text('status'),
    row.text('rows'),
    row.text('wraps'),
    row.at('held') === true ? 'yes' : 'no',
  ]);
  return table(['version', 'status', 'seals', 'sealed ever', 'held'], cells, { paint, width });
}

export const keysRotate: Handler = async (call) => {
  const client = await connect(call);
  const { id } = await client.call(keys.rotateKeys);
  const rotation = await ended(call, client, id);
  call.screen.progress('');
  if (rotation.text('status') === 'failed') {
    throw refusal('rotation-failed', clean(rotation.text('detail'), true), 'svc keys list');
  }
  const retired = rotation.at('retired') ?? [];
  const versions = retired.length > 0 ? retired.join(', ') : undefined;
  call.screen.emit(await client.call(keys.getKeys), () =>
    [
      `${rotation.text('done')} values sealed again with version ${rotation.text('toVersion')}`,
      versions === undefined ? 'no version was retired' : `retired: ${versions}; nothing stored needs it any more`,
    ].join('\n'),
  );
  return 0;
};

/** Waits for the end of a rotation, and for that of the one that took its place. */
async function ended(call: Call, client: Client, id: string): Promise<Row<keys.KeyRotation | null>> {
  const look = patiently(() => client.call(keys.getKeys));
  for (;;) {
    const report = await look();
    const rotation = rowOf(report?.rotation ?? null);
    if (report !== undefined && rotation.text('status') !== 'running') return rotation;
    if (report !== undefined)
      call.screen.progress(`sealing again: ${rotation.text('done')} of ${rotation.text('total')}`);
    await pause(pollMs, call.io.signal);
    if (call.io.signal.aborted) {
      throw refusal('interrupted', `stopped waiting; rotation ${id} goes on`, 'svc keys list');
    }
  }
}
