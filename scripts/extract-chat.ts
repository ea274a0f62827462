// Makes testdata/providers/chat-methods.json anew: the arguments of the chat provider's methods that the service calls, as
// its published reference lists them. The simulator refuses what it does not list, and what lacks a required one.
//
//   git clone https://github.com/slack-ruby/slack-api-ref
//   node scripts/extract-chat.ts slack-api-ref $(git -C slack-api-ref rev-parse HEAD)

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [, , source = '', commit = ''] = process.argv;
const methodsList = [
  'assistant.search.context',
  'auth.test',
  'chat.getPermalink',
  'chat.postMessage',
  'conversations.history',
  'conversations.replies',
  'reactions.add',
  'reactions.get',
  'users.conversations',
];

interface Reference {
  readonly args?: { readonly [name: string]: { readonly required?: boolean; readonly type?: unknown } };
}

const methods = Object.fromEntries(
  methodsList.map((method) => {
    const group = method.slice(0, method.indexOf('.'));
    const text = readFileSync(join(source, 'methods', group, `${method}.json`), 'utf8');
    const { args = {} } = JSON.parse(text) as Reference;
    const listed = Object.entries(args).filter(([name]) => name !== 'token');
    return [
      method,
      Object.fromEntries(listed.map(([name, { required = false, type = 'string' }]) => [name, { required, type }])),
    ];
  }),
);
const origin = `slack-ruby/slack-api-ref @${commit}, methods: names, types and whether they are required; prose left out`;
writeFileSync(
  new URL('../testdata/providers/chat-methods.json', import.meta.url),
  `${JSON.stringify({ origin, made: 'scripts/extract-chat.ts', methods }, null, 1)}\n`,
);
