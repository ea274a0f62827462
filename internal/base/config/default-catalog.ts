// The lists of the shipped catalog (catalog.ts), apart from what checks an operator's additions: an offline command needs
// nothing else.

import type { Catalog } from '../../domain/catalog.ts';
import { codehostTools } from './codehost-tools.ts';

export const defaultCatalog: Catalog = {
  presets: ['base', 'node24'],
  models: {
    'provider-a': {
      ids: [
        'claude-fable-5',
        'claude-haiku-4-5',
        'claude-haiku-5',
        'claude-opus-4-5',
        'claude-opus-4-6',
        'claude-opus-4-7',
        'claude-opus-4-8',
        'claude-sonnet-4-5',
        'claude-sonnet-4-6',
        'claude-sonnet-5',
      ],
      pattern: '^claude-[a-z0-9][a-z0-9.-]*$',
    },
    'provider-b': {
      ids: [
        'codex-mini-latest',
        'gpt-5',
        'gpt-5-codex',
        'gpt-5-mini',
        'gpt-5.1',
        'gpt-5.1-codex',
        'gpt-5.2',
        'o3',
        'o4-mini',
      ],
      pattern: '^(?:gpt-[a-z0-9][a-z0-9.-]*|o[0-9][a-z0-9.-]*|codex-[a-z0-9][a-z0-9.-]*)$',
    },
    // Any vendor/model slug, with an optional :tag (docs/reference/compile.md#models).
    'provider-c': { ids: [], pattern: '^[^/\\s]+/[^/\\s]+$' },
  },
  harnesses: {
    'harness-a': {
      defaultProvider: 'provider-a',
      providers: ['provider-a'],
      defaultModel: 'claude-opus-4-8',
      efforts: ['low', 'medium', 'high', 'xhigh', 'max'],
      defaultEffort: 'high',
    },
    'harness-b': {
      defaultProvider: 'provider-b',
      providers: ['provider-b', 'provider-c'],
      defaultModel: 'gpt-5.2',
      efforts: ['minimal', 'low', 'medium', 'high', 'xhigh'],
      defaultEffort: 'medium',
    },
  },
  effortsByModel: {
    'provider-c': {
      'deepseek/deepseek-v3.2': ['high', 'xhigh'],
      'deepseek/deepseek-v4': ['high', 'xhigh'],
      'minimax/minimax-m2': ['medium', 'high'],
      'moonshotai/kimi-k2-thinking': ['medium', 'high'],
      'z-ai/glm-4.7': ['medium', 'high'],
      'z-ai/glm-5': ['high', 'xhigh'],
    },
  },
  codehostTools: codehostTools,
  avatars: [],
};
