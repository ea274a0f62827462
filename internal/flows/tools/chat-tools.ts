// Tools of chat providers: who may be spoken to is decided by the connections that the alias names.

import type { ChatAuth } from '../../domain/spec.ts';
import { chatHistory, chatReact, chatSearch, chatSend } from '../chat/chat.ts';
import { tool, type ToolSpec } from './table.ts';

/** The tools of an alias with these connections. */
export function chatTools(alias: string, auth: ChatAuth): readonly ToolSpec[] {
  return [
    tool({
      name: 'chat.send',
      description:
        'Post a chat message; without channelId, into the thread that started this session. Answers with messageId and ' +
        'threadId: answer there by passing them on, never guess them. What people write in that thread comes to this session ' +
        'where a trigger of its agent listens for it. Words that call everybody are made harmless.',
      effect: 'adds',
      run: ({ ctx, caller }, input) => chatSend({ ctx, caller, alias, auth }, input),
    }),
    tool({
      name: 'chat.history',
      description:
        'Read messages of a chat channel, newest first, or of a thread, its first message first. Pass next as before for more. ' +
        'Files of a thread’s messages are put into the sandbox: path says where.',
      effect: 'none',
      run: ({ ctx, caller }, input) => chatHistory({ ctx, caller, alias, auth }, input),
    }),
    tool({
      name: 'chat.search',
      description:
        'Search chat messages by words. partial: true means that only the newest messages of the channels that the bot is in were looked at.',
      effect: 'none',
      run: ({ ctx, caller }, input) => chatSearch({ ctx, caller, alias, auth }, input),
    }),
    tool({
      name: 'chat.react',
      description: 'React to a chat message with an emoji. Answers added: true, also where it was there.',
      effect: 'adds',
      run: ({ ctx, caller }, input) => chatReact({ ctx, caller, alias, auth }, input),
    }),
  ];
}
