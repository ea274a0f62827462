// Whether the files of an embedded database are those of the server that this program brings.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Binaries, findBinaries } from './server-programs.ts';

const majorOf = (cluster: string): Promise<string | undefined> =>
  readFile(join(cluster, 'PG_VERSION'), 'utf8').then(
    (text) => text.trim(),
    () => undefined,
  );

export const hasCluster = async (cluster: string): Promise<boolean> => (await majorOf(cluster)) !== undefined;

/** Why that server does not run on the files that are there; undefined where it does. */
export async function whyForeign(cluster: string, { home }: Binaries): Promise<string | undefined> {
  const major = await majorOf(cluster);
  const bki = await readFile(join(home, 'share', 'postgresql', 'postgres.bki'), 'utf8');
  const mine = bki.split('\n', 1)[0]?.split(' ')[2];
  if (major === undefined || mine === undefined || mine === major) return undefined;
  return `database under ${cluster} is PostgreSQL ${major}, this svcd brings ${mine}: save it by svc backup of the release before, and put it into another data directory by svc restore of this one.`;
}

/** The same of a data directory, for whoever looks before an upgrade. */
export async function foreignEmbedded(dataDir: string): Promise<string | undefined> {
  const why = await whyForeign(join(dataDir, 'postgres'), await findBinaries(dataDir));
  return why === undefined ? undefined : `the ${why}`;
}
