// Which layers of a merged document do not fit each other: a key from one file, and what another made of the map that holds it
// (docs/reference/compile.md#merge).

import type { MapNode, Node } from '../source/node.ts';

interface Chain {
  readonly parent: Chain | null;
  readonly holder?: MapNode;
}

const discriminators = ['kind', 'implementation', 'action'];

const layerText = (file: string, other: string, name: string): string =>
  file === other ? '' : `; the key comes from ${file}, the ${name} from ${other}`;

/** Says which layer a key came from, where another file set the field that it does not fit. */
export const layerOf = (file: string, discriminator: { readonly node: Node } | undefined, name: string): string =>
  layerText(file, discriminator?.node.range.file ?? file, name);

/** The same of an unknown key, which its map, or the nearest one around it that is of a kind, does not have. */
export function variantLayer(spot: { readonly node: MapNode; readonly trail: Chain | null }, file: string): string {
  const maps = [spot.node];
  for (let at: Chain | null = spot.trail; at?.holder !== undefined; at = at.parent) maps.push(at.holder);
  const variant = maps.find(({ entries }) => discriminators.some((one) => entries.has(one)));
  const layers = discriminators.map((one) => layerText(file, variant?.entries.get(one)?.value.range.file ?? file, one));
  return layers.find((text) => text !== '') ?? '';
}
