// Names as people write them, made one id of the team.

import { outsideFault } from '../../domain/outside.ts';

export interface Named {
  readonly id: string;
  readonly name: string;
  readonly displayName?: string;
  readonly email?: string;
}

/** The id that a name means: an id, else exactly that name, else in any case. Throws Fault `not-found`, `refused`. */
export function chosen(rows: readonly Named[], name: string, field: string): string {
  const lower = name.toLowerCase();
  const namesOf = (row: Named): string[] => [row.name, row.displayName ?? row.name, row.email ?? row.name];
  const tries: readonly ((row: Named) => boolean)[] = [
    (row) => row.id === name,
    (row) => namesOf(row).includes(name),
    (row) => namesOf(row).some((one) => one.toLowerCase() === lower),
  ];
  for (const fits of tries) {
    const ids = [...new Set(rows.filter(fits).map((row) => row.id))];
    if (ids.length > 1) throw outsideFault('refused', `${field}: several have this name; pass an id`);
    if (ids[0] !== undefined) return ids[0];
  }
  throw outsideFault('not-found', `${field}: the team of the issue has none of this name`);
}
