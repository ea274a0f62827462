// What speaks a protocol of its own below a path of the server, behind its own authentication.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';

const bodyBytes = 4 * 1_048_576;

export interface MountRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly params: { readonly [name: string]: string };
}

/** A handler below a path, for every method. */
export interface Mount {
  readonly path: string;
  /** Before any of the body is read: whether it is to be. Has answered where it is not. */
  admit(at: MountRequest): Promise<boolean>;
  /** `body`: as received. */
  handle(at: MountRequest & { readonly body: Buffer | undefined }): Promise<void>;
}

export function addMount(app: FastifyInstance, { path, admit, handle }: Mount): void {
  const partsOf = (request: FastifyRequest, response: ServerResponse): MountRequest => ({
    request: request.raw,
    response,
    params: request.params as MountRequest['params'],
  });
  app.all(path, {
    bodyLimit: bodyBytes,
    onRequest: async (request, reply) => {
      if (!(await admit(partsOf(request, reply.raw)))) reply.hijack();
    },
    handler: async (request, reply) => {
      reply.hijack();
      const body = Buffer.isBuffer(request.body) ? request.body : undefined;
      await handle({ ...partsOf(request, reply.raw), body });
    },
  });
}
