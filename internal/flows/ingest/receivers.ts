// An endpoint or a connection by what stands in the address of a delivery.

import type { IngestEndpoint } from '../../adapters/store/resources/endpoints.ts';
import { connectionById, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { type FlowContext, ingestOf } from '../context.ts';

/** Slugs are at most a name of 128 characters and what is derived. */
const slugShape = /^[a-z0-9-]{1,160}$/;
const idShape = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Looked up, or remembered; undefined where there is none. */
export const findEndpoint = async (ctx: FlowContext, slug: string): Promise<IngestEndpoint | undefined> =>
  slugShape.test(slug) ? ingestOf(ctx).endpoint(slug) : undefined;

/** Of any provider, whatever its state; undefined where there is none. */
export const findConnection = async (ctx: FlowContext, id: string): Promise<SealedConnection | undefined> =>
  idShape.test(id) ? connectionById(ctx.db, id) : undefined;
