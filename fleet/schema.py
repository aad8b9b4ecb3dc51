"""
The schema of the shared database: SQL steps, each applied once, in order, in one transaction with its number.

Every row of history names its owner, and row level security lets a role see the owners that ``grants`` names for it or for a role
that it is a member of (a team). Hosts have no right to any partition, sequence or table but those below. A search goes through
``lcm.search``: operators of full-text search are not leakproof, so below a policy PostgreSQL would not use their index.
"""

from __future__ import annotations

from typing import Final

from ..records import Flag

#: ``server_version_num`` of the oldest server that the steps and tests know.
LEAST_SERVER: Final = 150000
#: The realm that a host has for itself begins so.
PRIVATE: Final = "~"

_FLAGS: Final = {
    "<UNFOUND>": Flag.DUPLICATE | Flag.FILTERED,
    "<PURGED>": Flag.PURGED,
    "<OF ITS WORDS>": f"{Flag.QUARANTINED} | {Flag.EXTERNALISED} | {Flag.COLLECTED} | {Flag.PRUNED}",
    "<WITHOUT WORDS>": f"{Flag.PURGED} | {Flag.REDACTED} | {Flag.FILTERED}",
}


def _with_flags(sql: str) -> str:
    """A step with the bits of flags in place of their names."""
    for name, bits in _FLAGS.items():
        sql = sql.replace(name, str(bits))
    return sql


# ``blocks.pushed``: a server that took another's place may lack what that one had, so each file counts its pushes, here and at
# home. ``purges`` tells other hosts what went. ``backups``: copies in the object store; each role sees its own, and their keys.
_TABLES: Final = """
CREATE SCHEMA lcm;
CREATE TABLE lcm.meta(key text PRIMARY KEY, value text NOT NULL);
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'lcm_member') THEN CREATE ROLE lcm_member NOLOGIN; END IF;
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'lcm_purger') THEN CREATE ROLE lcm_purger NOLOGIN; END IF;
END $$;

CREATE TABLE lcm.hosts(
  role name PRIMARY KEY,
  realm text NOT NULL,
  joined_at timestamptz NOT NULL DEFAULT now(),
  seen_at timestamptz,
  behind bigint
);
CREATE TABLE lcm.blocks(
  block bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  role name NOT NULL DEFAULT session_user,
  file text NOT NULL,
  pushed bigint NOT NULL DEFAULT 0
);
CREATE INDEX blocks_file ON lcm.blocks(file);
CREATE TABLE lcm.principals(
  owner int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  realm text NOT NULL,
  name text NOT NULL,
  UNIQUE(realm, name)
);
CREATE TABLE lcm.grants(
  role name NOT NULL,
  realm text NOT NULL,
  pattern text NOT NULL,
  PRIMARY KEY(role, realm, pattern)
);

CREATE TABLE lcm.conversations(
  conversation bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  nonce text NOT NULL UNIQUE,
  owner int NOT NULL REFERENCES lcm.principals,
  parent text,
  fork_seq bigint,
  created_at float8 NOT NULL,
  inherits text,
  changed bigint NOT NULL DEFAULT 0,
  changed_at timestamptz NOT NULL DEFAULT now(),
  writers name[] NOT NULL DEFAULT ARRAY[session_user]::name[],
  UNIQUE(conversation, owner)
);
CREATE INDEX conversations_changed ON lcm.conversations(changed_at);
CREATE TABLE lcm.sessions(
  conversation bigint NOT NULL,
  owner int NOT NULL,
  session_id text NOT NULL,
  parent_session_id text,
  origin text NOT NULL,
  platform text NOT NULL,
  host_key text NOT NULL,
  mode text NOT NULL,
  model text NOT NULL,
  started_at float8 NOT NULL,
  ended_at float8,
  end_reason text,
  compactions int NOT NULL,
  PRIMARY KEY(conversation, session_id),
  FOREIGN KEY(conversation, owner) REFERENCES lcm.conversations(conversation, owner) ON UPDATE CASCADE
);
CREATE INDEX sessions_by_id ON lcm.sessions(session_id);

CREATE TABLE lcm.messages(
  conversation bigint NOT NULL,
  owner int NOT NULL,
  id bigint NOT NULL,
  session_id text NOT NULL,
  seq bigint NOT NULL,
  pos float8 NOT NULL,
  role text NOT NULL,
  tool_name text,
  answers text,
  digest bytea NOT NULL,
  tokens int NOT NULL,
  chars int NOT NULL,
  said_at float8,
  stored_at float8 NOT NULL,
  source text NOT NULL,
  flags int NOT NULL,
  revises bigint,
  envelope bytea NOT NULL,
  words tsvector,
  PRIMARY KEY(conversation, id),
  FOREIGN KEY(conversation, owner) REFERENCES lcm.conversations(conversation, owner) ON UPDATE CASCADE
) PARTITION BY HASH(conversation);
DO $$ BEGIN
  FOR n IN 0..7 LOOP
    EXECUTE format('CREATE TABLE lcm.messages_%s PARTITION OF lcm.messages FOR VALUES WITH (MODULUS 8, REMAINDER %s)', n, n);
    EXECUTE format('ALTER TABLE lcm.messages_%s ALTER COLUMN envelope SET STORAGE EXTERNAL', n);
  END LOOP;
END $$;
CREATE INDEX messages_by_id ON lcm.messages(id);
CREATE INDEX messages_words ON lcm.messages USING gin(words);

CREATE TABLE lcm.nodes(
  conversation bigint NOT NULL,
  owner int NOT NULL,
  id bigint NOT NULL,
  depth int NOT NULL,
  quality text NOT NULL,
  text text NOT NULL,
  expand_hint text NOT NULL,
  tokens int NOT NULL,
  source_tokens int NOT NULL,
  fingerprint bytea NOT NULL,
  model text NOT NULL,
  rung text NOT NULL,
  checks text NOT NULL,
  created_at float8 NOT NULL,
  replaces bigint,
  sources bigint[] NOT NULL,
  PRIMARY KEY(conversation, id),
  FOREIGN KEY(conversation, owner) REFERENCES lcm.conversations(conversation, owner) ON UPDATE CASCADE
);
CREATE INDEX nodes_by_id ON lcm.nodes(id);
CREATE INDEX nodes_sources ON lcm.nodes USING gin(sources);
CREATE TABLE lcm.assemblies(
  conversation bigint NOT NULL,
  owner int NOT NULL,
  id bigint NOT NULL,
  session_id text NOT NULL,
  roots bigint[] NOT NULL,
  tail_ids bigint[] NOT NULL,
  last_seq bigint NOT NULL,
  last_pos float8 NOT NULL,
  created_at float8 NOT NULL,
  digest bytea,
  PRIMARY KEY(conversation, id),
  FOREIGN KEY(conversation, owner) REFERENCES lcm.conversations(conversation, owner) ON UPDATE CASCADE
);
CREATE TABLE lcm.carried(
  conversation bigint NOT NULL,
  owner int NOT NULL,
  id bigint NOT NULL,
  PRIMARY KEY(conversation, id),
  FOREIGN KEY(conversation, owner) REFERENCES lcm.conversations(conversation, owner) ON UPDATE CASCADE
);
CREATE TABLE lcm.archives(
  conversation bigint NOT NULL,
  owner int NOT NULL,
  handle text NOT NULL,
  session_id text NOT NULL,
  store_ids bigint[] NOT NULL,
  first_index int NOT NULL,
  last_index int NOT NULL,
  messages int NOT NULL,
  summary text NOT NULL,
  given int NOT NULL,
  preview text NOT NULL,
  chars int NOT NULL,
  tokens int NOT NULL,
  state text NOT NULL,
  created_at float8 NOT NULL,
  changed_at float8 NOT NULL,
  PRIMARY KEY(conversation, handle),
  FOREIGN KEY(conversation, owner) REFERENCES lcm.conversations(conversation, owner) ON UPDATE CASCADE
);
CREATE TABLE lcm.leases(
  conversation bigint PRIMARY KEY,
  owner int NOT NULL,
  role name NOT NULL DEFAULT session_user,
  until timestamptz NOT NULL,
  FOREIGN KEY(conversation, owner) REFERENCES lcm.conversations(conversation, owner) ON UPDATE CASCADE
);
CREATE TABLE lcm.holds(
  role name NOT NULL DEFAULT session_user,
  conversation bigint NOT NULL,
  owner int NOT NULL,
  session_id text NOT NULL,
  id bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY(role, conversation, session_id, id),
  FOREIGN KEY(conversation, owner) REFERENCES lcm.conversations(conversation, owner) ON UPDATE CASCADE
);
CREATE TABLE lcm.purges(
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  role name NOT NULL DEFAULT session_user,
  conversation bigint NOT NULL,
  owner int NOT NULL,
  ids bigint[] NOT NULL,
  nodes bigint[] NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  changed bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
  FOREIGN KEY(conversation, owner) REFERENCES lcm.conversations(conversation, owner) ON UPDATE CASCADE
);
CREATE INDEX purges_changed ON lcm.purges(changed);
CREATE INDEX purges_conversation ON lcm.purges(conversation);
CREATE TABLE lcm.backups(
  role name NOT NULL DEFAULT session_user,
  name text NOT NULL,
  object text NOT NULL UNIQUE,
  key text NOT NULL,
  sha256 text NOT NULL,
  bytes bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY(role, name)
);
"""

# The planner's statistics are of all owners' rows, and EXPLAIN answers every role by them.
_SILENT: Final = """
DO $$
DECLARE c record;
BEGIN
  FOR c IN SELECT a.attrelid::regclass AS home, quote_ident(a.attname) AS name
    FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid
   WHERE r.relnamespace = 'lcm'::regnamespace AND r.relkind IN ('r', 'p') AND NOT r.relispartition AND a.attnum > 0
     AND a.atttypid <> 'name'::regtype
     AND a.attname <> ALL (ARRAY['conversation', 'owner', 'id', 'n', 'block', 'rung', 'flags'])
  LOOP
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %s SET STATISTICS 0', c.home, c.name);
  END LOOP;
END $$;
"""

# Functions that bypass the policies name their schema, and ask for ``session_user``: inside of them ``current_user`` is the
# operator's role. A right to delete would be one to lock the whole table, for all realms: functions delete instead. A known
# principal uses up no number.
_FUNCTIONS: Final = """
CREATE FUNCTION lcm.mine() RETURNS SETOF int LANGUAGE sql STABLE SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
  SELECT p.owner FROM lcm.principals p JOIN lcm.grants g ON g.realm = p.realm AND p.name LIKE g.pattern
   WHERE pg_has_role(session_user, to_regrole(quote_ident(g.role)), 'MEMBER')
$$;

CREATE FUNCTION lcm.owner_of(whose text) RETURNS int LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE home text; found int;
BEGIN
  SELECT h.realm INTO home FROM lcm.hosts h JOIN lcm.grants g ON g.role = h.role AND g.realm = h.realm AND whose LIKE g.pattern
   WHERE h.role = session_user LIMIT 1;
  IF home IS NULL THEN home := '~' || session_user; END IF;
  LOOP
    SELECT p.owner INTO found FROM lcm.principals p WHERE p.realm = home AND p.name = whose;
    EXIT WHEN found IS NOT NULL;
    INSERT INTO lcm.principals(realm, name) VALUES (home, whose) ON CONFLICT DO NOTHING;
  END LOOP;
  RETURN found;
END $$;

CREATE FUNCTION lcm.new_block(of_file text) RETURNS bigint LANGUAGE sql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO lcm.blocks(role, file) VALUES (session_user, of_file) RETURNING block
$$;

CREATE FUNCTION lcm.mark(of_block bigint, n bigint) RETURNS void LANGUAGE sql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
  UPDATE lcm.blocks SET pushed = greatest(pushed, n) WHERE block = of_block AND role = session_user
$$;

CREATE FUNCTION lcm.seen(rows_behind bigint) RETURNS void LANGUAGE sql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
  UPDATE lcm.hosts SET seen_at = now(), behind = rows_behind WHERE role = session_user
$$;

CREATE FUNCTION lcm.search(terms text[], whose text, most int) RETURNS TABLE(id bigint, score float8) LANGUAGE sql STABLE
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH visible AS MATERIALIZED (
    SELECT p.owner FROM lcm.principals p WHERE p.owner IN (SELECT lcm.mine()) AND (whose IS NULL OR p.name = whose)
  ), words AS MATERIALIZED (
    SELECT to_tsquery('simple', quote_literal(t)) AS q, (SELECT count(*) FROM (
      SELECT 1 FROM lcm.messages m WHERE m.words @@ to_tsquery('simple', quote_literal(t))
         AND m.owner IN (SELECT owner FROM visible) LIMIT 5001) few) AS n
      FROM unnest(terms[1:32]) AS t
  ), every AS (
    SELECT string_agg(q::text, ' & ')::tsquery AS q FROM words
  ), found AS (
    SELECT m.id, ln(2 + 5000.0 / w.n) AS score FROM words w CROSS JOIN LATERAL (
      SELECT x.id FROM lcm.messages x WHERE x.words @@ w.q AND x.owner IN (SELECT owner FROM visible) AND x.flags & <UNFOUND> = 0
    ) m WHERE w.n BETWEEN 1 AND 5000
    UNION ALL
    SELECT m.id, 3.0 FROM (
      SELECT x.id FROM lcm.messages x WHERE x.words @@ (SELECT q FROM every) AND x.owner IN (SELECT owner FROM visible)
         AND x.flags & <UNFOUND> = 0 LIMIT 1000
    ) m
  )
  SELECT f.id, sum(f.score) FROM found f GROUP BY f.id ORDER BY 2 DESC, 1 DESC LIMIT least(most, 1000)
$$;

CREATE FUNCTION lcm.let_go(numbers bigint[], whole text[]) RETURNS void LANGUAGE sql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM lcm.holds h WHERE h.role = session_user AND h.id = ANY(numbers);
  DELETE FROM lcm.holds h WHERE h.role = session_user AND h.id = 0 AND h.session_id = ANY(whole)
$$;

CREATE FUNCTION lcm.release(of_nonce text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM lcm.leases l USING lcm.conversations c
   WHERE l.conversation = c.conversation AND c.nonce = of_nonce AND l.role = session_user
$$;

CREATE FUNCTION lcm.drop_copy(of_object text) RETURNS void LANGUAGE sql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM lcm.backups b WHERE b.object = of_object AND b.role = session_user
$$;

CREATE FUNCTION lcm.fixed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF EXISTS (SELECT FROM lcm.conversations c WHERE c.nonce = NEW.parent AND c.owner NOT IN (SELECT lcm.mine())) THEN
      RAISE EXCEPTION 'a branch of what this role does not see' USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.writers := ARRAY[session_user];
  ELSIF NEW.owner <> OLD.owner AND session_user <> current_user AND NOT EXISTS (
    SELECT FROM lcm.principals was, lcm.principals will WHERE was.owner = OLD.owner AND will.owner = NEW.owner
       AND was.name LIKE 'session:%' AND was.realm IN (will.realm, '~' || session_user)
  ) THEN
    RAISE EXCEPTION 'a conversation stays with its owner' USING ERRCODE = 'insufficient_privilege';
  ELSIF session_user <> ALL (OLD.writers) THEN
    NEW.writers := OLD.writers || session_user::name;
  END IF;
  NEW.changed := pg_current_xact_id()::text::bigint;
  NEW.changed_at := now();
  RETURN NEW;
END $$;
CREATE TRIGGER fixed BEFORE INSERT OR UPDATE ON lcm.conversations FOR EACH ROW EXECUTE FUNCTION lcm.fixed();
"""

# Which row is meant. Numbers can be guessed, and a file that was put back gives some out again: so a message is named with its
# conversation, and a number among sources means the row of their own conversation, else of their owner, else any that is seen.
_NEARER: Final = (
    "x.id = m.id AND x.conversation <> m.conversation AND (x.conversation = n.conversation "
    "OR (m.conversation <> n.conversation AND m.owner <> n.owner AND x.owner = n.owner))"
)
# A purge locks the conversations that it changes, where whoever holds something needs a lock as well. A push leaves out the words
# that it took (``covered``), so nobody empties anything again: that would take what others have said since.
_PURGE: Final = """
CREATE FUNCTION lcm.held(homes bigint[], asked bigint[]) RETURNS TABLE(home bigint, id bigint, role name) LANGUAGE sql STABLE
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT m.conversation, m.id, h.role FROM unnest(homes, asked) AS t(home, id)
    JOIN lcm.messages m ON m.conversation = t.home AND m.id = t.id
    JOIN lcm.holds h ON h.conversation = m.conversation AND (h.id = m.id OR (h.id = 0 AND h.session_id = m.session_id))
   WHERE m.owner IN (SELECT lcm.mine())
$$;

CREATE FUNCTION lcm.above(homes bigint[], asked bigint[]) RETURNS TABLE(home bigint, id bigint) LANGUAGE sql STABLE
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE visible AS MATERIALIZED (SELECT lcm.mine() AS owner), above(home, id) AS (
    SELECT n.conversation, n.id FROM lcm.nodes n CROSS JOIN LATERAL unnest(n.sources) AS s(id)
      JOIN unnest(homes, asked) AS t(home, id) ON t.id = s.id
      JOIN lcm.messages m ON m.conversation = t.home AND m.id = t.id
     WHERE n.depth = 0 AND n.sources && asked
       AND n.owner IN (SELECT owner FROM visible) AND m.owner IN (SELECT owner FROM visible) AND NOT EXISTS (
         SELECT FROM lcm.messages x WHERE <NEARER>)
    UNION
    SELECT n.conversation, n.id FROM above a JOIN lcm.nodes m ON m.conversation = a.home AND m.id = a.id
      JOIN lcm.nodes n ON n.sources @> ARRAY[m.id]
     WHERE n.depth > 0 AND n.owner IN (SELECT owner FROM visible) AND NOT EXISTS (
       SELECT FROM lcm.nodes x WHERE <NEARER>)
  ) SELECT home, id FROM above
$$;

CREATE FUNCTION lcm.archived(homes bigint[], asked bigint[]) RETURNS TABLE(home bigint, handle text) LANGUAGE sql STABLE
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT DISTINCT n.conversation, n.handle FROM lcm.archives n CROSS JOIN LATERAL unnest(n.store_ids) AS s(id)
    JOIN unnest(homes, asked) AS t(home, id) ON t.id = s.id
    JOIN lcm.messages m ON m.conversation = t.home AND m.id = t.id
   WHERE n.store_ids && asked AND n.owner IN (SELECT lcm.mine()) AND m.owner IN (SELECT lcm.mine()) AND NOT EXISTS (
     SELECT FROM lcm.messages x WHERE <NEARER>)
$$;

CREATE FUNCTION lcm.purge(homes bigint[], asked bigint[], envelopes bytea[])
  RETURNS TABLE(messages bigint, nodes bigint, archives bigint) LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE own int[] := ARRAY(SELECT lcm.mine()); gone bigint[]; of_home bigint[]; emptied bigint[];
BEGIN
  PERFORM FROM lcm.conversations c WHERE c.conversation = ANY(homes) AND c.owner = ANY(own) ORDER BY c.conversation FOR UPDATE;
  IF EXISTS (SELECT FROM lcm.held(homes, asked)) THEN
    RAISE EXCEPTION 'some of these messages are held';
  END IF;
  UPDATE lcm.messages m SET envelope = t.e, words = NULL, flags = (m.flags & ~(<OF ITS WORDS>)) | <WITHOUT WORDS>
    FROM unnest(homes, asked, envelopes) AS t(home, id, e)
   WHERE m.conversation = t.home AND m.id = t.id AND m.owner = ANY(own) AND m.flags & <PURGED> = 0;
  GET DIAGNOSTICS messages = ROW_COUNT;
  SELECT array_agg(m.conversation), array_agg(m.id) INTO of_home, gone FROM unnest(homes, asked) AS t(home, id)
    JOIN lcm.messages m ON m.conversation = t.home AND m.id = t.id
   WHERE m.owner = ANY(own) AND m.flags & <PURGED> <> 0;
  WITH resting AS (
    UPDATE lcm.nodes n SET text = '[redacted:purged]', expand_hint = '', tokens = 6, quality = 'provisional', rung = 'purged',
           model = '', checks = '{}'
      FROM lcm.above(of_home, gone) a WHERE n.conversation = a.home AND n.id = a.id
    RETURNING n.id
  ) SELECT coalesce(array_agg(r.id), '{}'), count(*) INTO emptied, nodes FROM resting r;
  UPDATE lcm.archives n SET summary = '[redacted:purged]', preview = '' FROM lcm.archived(of_home, gone) a
   WHERE n.conversation = a.home AND n.handle = a.handle AND n.summary <> '[redacted:purged]';
  GET DIAGNOSTICS archives = ROW_COUNT;
  INSERT INTO lcm.purges(conversation, owner, ids, nodes)
  SELECT m.conversation, m.owner, array_agg(m.id), emptied FROM unnest(of_home, gone) AS t(home, id)
    JOIN lcm.messages m ON m.conversation = t.home AND m.id = t.id GROUP BY 1, 2;
  RETURN NEXT;
END $$;
""".replace("<NEARER>", _NEARER)

# Nobody moves what is stored. A conversation that nobody owns yet may be claimed, within its realm; all else that says whose it
# is, where it comes from and who wrote it stays, or is the server's to say (``fixed``). A unique key is looked up before a
# foreign one, so only a policy, which comes first, answers the same whether others have it or not. A row that was purged is final
# for every host, and what rests on one can be written anew only as the rest of it; what a host purged of its own summaries,
# nobody needs whole.
_POLICIES: Final = """
DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['sessions', 'messages', 'nodes', 'assemblies', 'carried', 'archives', 'leases', 'holds'] LOOP
    EXECUTE format('CREATE POLICY in_its_own ON lcm.%1$I AS RESTRICTIVE FOR INSERT WITH CHECK (EXISTS (SELECT FROM '
                   'lcm.conversations c WHERE c.conversation = %1$I.conversation AND c.owner = %1$I.owner))', t);
    EXECUTE format('CREATE POLICY own ON lcm.%I USING (owner IN (SELECT lcm.mine())) '
                   'WITH CHECK (owner IN (SELECT lcm.mine()))', t);
    EXECUTE format('ALTER TABLE lcm.%I ENABLE ROW LEVEL SECURITY', t);
  END LOOP;
  FOREACH t IN ARRAY ARRAY['conversations', 'principals', 'hosts', 'blocks', 'purges', 'backups'] LOOP
    EXECUTE format('ALTER TABLE lcm.%I ENABLE ROW LEVEL SECURITY', t);
  END LOOP;
END $$;
CREATE POLICY own ON lcm.conversations USING (owner IN (SELECT lcm.mine())) WITH CHECK (owner IN (SELECT lcm.mine()));
CREATE POLICY own ON lcm.principals FOR SELECT USING (owner IN (SELECT lcm.mine()));
CREATE POLICY own ON lcm.hosts FOR SELECT USING (role = session_user);
CREATE POLICY own ON lcm.blocks FOR SELECT USING (role = session_user);
CREATE POLICY own ON lcm.purges FOR SELECT USING (owner IN (SELECT lcm.mine()));
CREATE POLICY own ON lcm.backups USING (role = session_user) WITH CHECK (role = session_user);
CREATE POLICY ones_own ON lcm.holds AS RESTRICTIVE FOR INSERT WITH CHECK (role = session_user);
CREATE POLICY let_go ON lcm.holds AS RESTRICTIVE FOR DELETE USING (role = session_user);
CREATE POLICY final ON lcm.messages AS RESTRICTIVE FOR UPDATE USING (flags & <PURGED> = 0) WITH CHECK (true);
CREATE POLICY rest ON lcm.nodes AS RESTRICTIVE FOR UPDATE
  USING (rung = 'purged' OR EXISTS (SELECT FROM lcm.blocks b WHERE b.block = id / 100000000 AND b.role = session_user))
  WITH CHECK (rung = 'purged');
"""

# Only members of ``lcm_purger`` may begin a purge, since every host obeys. A number given by hand would be missing to who gets it
# by turn, so nobody names one.
_RIGHTS: Final = """
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA lcm FROM PUBLIC;
GRANT USAGE ON SCHEMA lcm TO lcm_member;
GRANT EXECUTE ON FUNCTION lcm.mine(), lcm.owner_of(text), lcm.new_block(text), lcm.mark(bigint, bigint), lcm.seen(bigint),
  lcm.search(text[], text, int), lcm.let_go(bigint[], text[]), lcm.release(text), lcm.drop_copy(text),
  lcm.held(bigint[], bigint[]), lcm.above(bigint[], bigint[]), lcm.archived(bigint[], bigint[]) TO lcm_member;
GRANT EXECUTE ON FUNCTION lcm.purge(bigint[], bigint[], bytea[]) TO lcm_purger;
GRANT SELECT ON lcm.meta, lcm.principals, lcm.hosts, lcm.blocks, lcm.purges, lcm.conversations TO lcm_member;
GRANT SELECT, INSERT ON lcm.sessions, lcm.messages, lcm.nodes, lcm.assemblies, lcm.carried, lcm.archives, lcm.leases, lcm.holds,
  lcm.backups TO lcm_member;
GRANT INSERT(nonce, owner, parent, fork_seq, created_at, inherits), UPDATE(owner, fork_seq, inherits) ON lcm.conversations
  TO lcm_member;
GRANT UPDATE(platform, host_key, mode, model, ended_at, end_reason, compactions) ON lcm.sessions TO lcm_member;
GRANT UPDATE(flags, pos, revises, envelope, words) ON lcm.messages TO lcm_member;
GRANT UPDATE(text, expand_hint, tokens, quality, model, rung, checks, fingerprint) ON lcm.nodes TO lcm_member;
GRANT UPDATE(digest) ON lcm.assemblies TO lcm_member;
GRANT UPDATE(state, changed_at) ON lcm.archives TO lcm_member;
GRANT UPDATE(role, until) ON lcm.leases TO lcm_member;
"""

_NEWEST: Final = _TABLES + _SILENT + _FUNCTIONS + _PURGE + _POLICIES + _RIGHTS
#: Steps by the version that each leads to. The first makes everything: no release wrote the versions before.
STEPS: Final = {9: _with_flags(_NEWEST)}
VERSION: Final = max(STEPS)
#: What hosts write down of each table, behind the conversation (and its owner).
COLUMNS: Final = {
    "sessions": "session_id parent_session_id origin platform host_key mode model started_at ended_at end_reason compactions",
    "messages": "id session_id seq pos role tool_name answers digest tokens chars said_at stored_at source flags revises "
    "envelope",
    "nodes": "id depth quality text expand_hint tokens source_tokens fingerprint model rung checks created_at replaces sources",
    "assemblies": "id session_id roots tail_ids last_seq last_pos created_at digest",
    "carried": "id",
    "archives": "handle session_id store_ids first_index last_index messages summary given preview chars tokens state created_at "
    "changed_at",
}
