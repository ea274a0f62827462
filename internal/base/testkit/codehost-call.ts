// One call of the simulated code host's API, as its handlers see it.

import type { Actor, SimRepository } from './codehost-state.ts';

export const r = '/repos/{owner}/{repo}';

/** What handlers need of the simulator itself. */
export interface SimWorld {
  nextId(): number;
  /** RFC 3339, in seconds, as the provider writes it. */
  time(): string;
  readonly repositories: readonly SimRepository[];
  /** Address under which this very server is reached. */
  readonly origin: string;
  /** Hands out an address that needs no token. */
  sign(content: Buffer, contentType: string): string;
  /** Tells whoever follows the host's webhooks. */
  happened(event: string, payload: object, repo: SimRepository): void;
}

export interface Call {
  readonly sim: SimWorld;
  readonly repo: SimRepository;
  readonly params: { readonly [name: string]: string };
  readonly query: URLSearchParams;
  readonly body: { readonly [key: string]: unknown };
  readonly accept: string;
  readonly actor: Actor;
  /** Repositories that the token covers, by full name. */
  readonly covers: readonly string[];
}
export interface SimAnswer {
  readonly status?: number;
  readonly body?: unknown;
  readonly text?: string;
  readonly bytes?: Buffer;
  readonly headers?: { readonly [name: string]: string };
}
export type Handler = (call: Call) => SimAnswer | Promise<SimAnswer>;

/** A page of a list, with the header that names the next. */
export function paged(
  query: URLSearchParams,
  list: readonly unknown[],
  wrap?: (page: readonly unknown[]) => object,
): SimAnswer {
  const size = Math.min(100, Number(query.get('per_page') ?? 30));
  const page = Number(query.get('page') ?? 1);
  const items = list.slice((page - 1) * size, page * size);
  const more = list.length > page * size;
  return {
    body: wrap === undefined ? items : wrap(items),
    ...(more && { headers: { link: `<https://api.codehost.example/x?page=${page + 1}>; rel="next"` } }),
  };
}

/** A reaction: 201 for a new one, 200 for one that was there. */
export function reactTo(
  { body, sim, actor }: Call,
  reactions: { id: number; content: string; user: Actor }[],
): SimAnswer {
  const content = String(body['content']);
  const there = reactions.find((one) => one.content === content && one.user.login === actor.login);
  const found = there ?? { id: sim.nextId(), content, user: actor };
  if (there === undefined) reactions.push(found);
  return { status: there === undefined ? 201 : 200, body: { id: found.id, content } };
}
