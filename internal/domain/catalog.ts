// What compile knows from configuration: presets, model lists, effort narrowing, tool catalog. Plain data;
// the shipped, dated default is in base/config, an operator's SVC_CONFIG file may extend or replace it.

import type { Harness, ModelProvider, ReasoningEffort } from './spec.ts';

export interface ProviderModels {
  /** Curated ids, exact. */
  readonly ids: readonly string[];
  /** Open pattern, anchored regular expression source; an id that matches is accepted though not curated. */
  readonly pattern?: string;
}

/** Ceilings of what an environment may ask for. */
export interface ResourceLimits {
  readonly cpuCount?: number | undefined;
  readonly memoryMB?: number | undefined;
}

export interface NetworkFacts {
  /** The installation's list; absent where it has none. */
  readonly allow?: readonly string[];
  /** Presets whose sessions are fenced in any case, with an edge that adds injected secrets. */
  readonly fenced: readonly string[];
  /** Presets whose sessions are fenced, with an edge, where there is a list. */
  readonly fencedByList: readonly string[];
}

export interface Catalog {
  /** Environment presets by name; `base` and `node24` always exist. */
  readonly presets: readonly string[];
  /** Of presets that have some. */
  readonly presetLimits?: { readonly [preset: string]: ResourceLimits };
  /** Of presets whose sessions run on an engine, those that it has nothing to make a box from. */
  readonly presetsWithoutImage?: readonly string[];
  /** What is known of the network of sessions before one is started; absent where nothing is. */
  readonly network?: NetworkFacts;
  readonly models: { readonly [provider in ModelProvider]: ProviderModels };
  readonly harnesses: {
    readonly [harness in Harness]: {
      readonly defaultProvider: ModelProvider;
      readonly providers: readonly ModelProvider[];
      readonly defaultModel: string;
      readonly efforts: readonly ReasoningEffort[];
      readonly defaultEffort: ReasoningEffort;
    };
  };
  /** Efforts that single models accept, where narrower than the harness's: provider → model id → efforts. */
  readonly effortsByModel: {
    readonly [provider in ModelProvider]?: { readonly [modelId: string]: readonly ReasoningEffort[] };
  };
  /** Names of the brokered code-host tools, with what each needs of a mount beyond reading. */
  readonly codehostTools: {
    readonly [tool: string]: { readonly default?: true; readonly needs?: 'merge' | 'secrets' };
  };
  /** sha256 (hex) of avatars that the service ships. */
  readonly avatars: readonly string[];
}
