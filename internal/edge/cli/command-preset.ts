// `svc preset build|list|show|remove` (docs/reference/sessions.md#presets): root file systems of environments, on this
// machine, for the daemon that uses the same data directory. No server is asked.

import { resolve } from 'node:path';
import { type BuiltPreset, PresetStore } from '../../adapters/presets/presets.ts';
import { compileSettings } from '../../base/config/compile-settings.ts';
import { Fault } from '../../domain/fault.ts';
import { UsageError, refusal } from './failure.ts';
import { asMisuse, localConfig } from './local-config.ts';
import { clean, relativeTime, table } from './text.ts';
import type { Handler } from './types.ts';

/** What the store refuses, in its own words. */
async function refusing<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Fault) throw refusal(error.code, error.message);
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw refusal('cannot-write', `${path ?? 'the data directory'} cannot be read or written (${code})`);
  }
}

const units = ['B', 'KiB', 'MiB', 'GiB'] as const;
function sizeText(bytes: number): string {
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  const value = bytes / 1024 ** power;
  return `${power === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)} ${units[power]}`;
}

const lines = (one: BuiltPreset): string =>
  [
    ['name', one.name],
    ['digest', one.digest],
    ['built', one.builtAt],
    ['from', clean(one.from, true)],
    ['files', `${one.files}, ${sizeText(one.bytes)}`],
    ['rootfs', one.rootfs],
  ]
    .map(([name = '', value = '']) => `${name.padEnd(8)}${value}`)
    .join('\n');

export const presetBuild: Handler = async (call) => {
  const name = call.arg('NAME');
  const from = call.text('from');
  if (from === undefined) throw new UsageError('--from is missing', 'name a directory, or an archive made by tar');
  const config = localConfig(call);
  const { catalog } = asMisuse(() => compileSettings(config.file, config.fileDir));
  call.screen.progress(`building ${name} from ${from} …`);
  const store = new PresetStore(config.dataDir);
  const built = await refusing(store.build(name, resolve(call.io.cwd, from), { now: call.screen.now() }));
  call.screen.emit(built, () => `${name}: ${built.digest}, ${built.files} files, ${sizeText(built.bytes)}`);
  if (!catalog.presets.includes(name))
    call.screen.note(
      `environments may name ${name} once the daemon's configuration has it: sandboxes.presets.${name}: {}`,
    );
  return 0;
};

export const presetList: Handler = async (call) => {
  const found = await refusing(new PresetStore(localConfig(call).dataDir).list());
  const now = call.screen.now();
  call.screen.emit({ items: found }, () =>
    found.length === 0
      ? 'no presets were built here'
      : table(
          ['name', 'digest', 'size', 'built'],
          found.map((one) => [one.name, one.digest.slice(0, 19), sizeText(one.bytes), relativeTime(one.builtAt, now)]),
          { paint: call.screen.paint, width: call.screen.width },
        ),
  );
  return 0;
};

export const presetShow: Handler = async (call) => {
  const name = call.arg('NAME');
  const found = await refusing(new PresetStore(localConfig(call).dataDir).find(name));
  if (found === undefined) throw refusal('not-found', `no preset ${name} was built here`, 'svc preset list');
  call.screen.emit(found, () => lines(found));
  return 0;
};

export const presetRemove: Handler = async (call) => {
  const name = call.arg('NAME');
  const isGone = await refusing(new PresetStore(localConfig(call).dataDir).remove(name));
  if (!isGone) throw refusal('not-found', `no preset ${name} was built here`, 'svc preset list');
  call.screen.emit({ name, removed: true }, () => `${name} is removed`);
  return 0;
};
