// `svc session exec`: a program in a session's sandbox, with this process's streams and its own exit code.

import { StringDecoder } from 'node:string_decoder';
import * as sessions from '../../../schemas/api/sessions.ts';
import { type Client, connect } from './client.ts';
import { Refusal } from './failure.ts';
import { wholeId } from './ids.ts';
import type { Call, Handler } from './types.ts';

const unreachable = 255;
/** Beyond it output of --json is cut, at its beginning. */
const textCharsMax = 4 * 1024 * 1024;

type Line = { id?: string; fd?: 1 | 2; data?: string; exitCode?: number; message?: string };

async function* linesOf(text: AsyncIterable<string>): AsyncGenerator<Line> {
  let rest = '';
  for await (const piece of text) {
    rest += piece;
    const whole = rest.split('\n');
    rest = whole.pop() ?? '';
    for (const line of whole) if (line !== '') yield JSON.parse(line) as Line;
  }
}

/** Hands standard input on as it comes, until it ends or the program does. */
async function feed(call: Call, client: Client, id: string, program: string): Promise<void> {
  const put = (body: { data?: string; end?: boolean }) =>
    client.call(sessions.execSessionInput, { params: { id, program }, body });
  try {
    for await (const chunk of call.io.stdin) {
      const bytes = Buffer.from(chunk as Buffer);
      for (let at = 0; at < bytes.length; at += sessions.execInputMaxBytes) {
        await put({ data: bytes.subarray(at, at + sessions.execInputMaxBytes).toString('base64') });
      }
    }
    await put({ end: true });
  } catch (error) {
    // The program is over and says how it went; with it nobody reads on.
    const isOver = (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE';
    if (!(error instanceof Refusal) && !isOver) throw error;
  }
}

export const sessionExec: Handler = async (call) => {
  const client = await connect(call);
  const said = { 1: '', 2: '' };
  // A character of several bytes may come in two pieces.
  const decoders = { 1: new StringDecoder(), 2: new StringDecoder() };
  const note = (fd: 1 | 2, text: string): void => {
    said[fd] = (said[fd] + text).slice(-textCharsMax);
  };
  let end: Line | undefined;
  try {
    const id = await wholeId(client, { operation: sessions.listSessions }, call.arg('ID'));
    const body = { argv: [...call.manyArgs('ARGV')], input: call.io.stdin.isTTY !== true };
    for await (const line of linesOf(client.download(sessions.execSession, { params: { id }, body }))) {
      if (line.id !== undefined) void feed(call, client, id, line.id);
      else if (line.fd !== undefined) {
        const bytes = Buffer.from(line.data ?? '', 'base64');
        if (call.json) note(line.fd, decoders[line.fd].write(bytes));
        else (line.fd === 1 ? call.io.stdout : call.io.stderr).write(bytes);
      } else end = line;
    }
  } catch (error) {
    if (!(error instanceof Refusal) || error.problem.status === 403) throw error;
    end = { exitCode: unreachable, message: error.message };
  } finally {
    // What is still typed has nobody to read it.
    call.io.stdin.destroy();
  }
  for (const fd of [1, 2] as const) note(fd, decoders[fd].end());
  const { exitCode = unreachable, message } = end ?? { message: 'the connection broke off' };
  if (call.json)
    call.screen.emit(
      { exitCode, stdout: said[1], stderr: said[2], ...(message !== undefined && { message }) },
      () => '',
    );
  else if (message !== undefined) call.screen.note(`svc: ${message}`);
  return exitCode;
};
