// What tests use of the authorization server, which brings no types.
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  interface GrantContext {
    readonly body: unknown;
    readonly oidc: { readonly params: { readonly [name: string]: string | undefined } };
  }
  interface FoundToken {
    readonly scope: string | undefined;
    readonly aud: string | readonly string[] | undefined;
    readonly isExpired: boolean;
  }
  export class Provider {
    constructor(issuer: string, configuration: object);
    proxy: boolean;
    readonly AccessToken: { find(token: string): Promise<FoundToken | undefined> };
    callback(): (request: IncomingMessage, response: ServerResponse) => void;
    on(event: string, hear: (ctx: GrantContext) => void): this;
  }
}
