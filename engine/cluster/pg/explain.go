package pg

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quern-queue/quern/engine/cluster"
)

// advice says what to do about failures that an operator can end, by SQLSTATE.
var advice = map[string]string{
	"28000": "The database does not let this user in: check the user in the URL, and pg_hba.conf.",
	"28P01": "The password is wrong: check the one in the URL.",
	"3D000": "There is no such database: create it with CREATE DATABASE, or correct the URL.",
	"42P01": "A table is missing: the schema was changed or dropped while it was used. Restore it, or restart Quern to begin with nothing.",
	"53300": "The database takes no more connections: raise its max_connections, or give Quern fewer.",
	"57P03": "The database is starting or stopping: try again when it accepts connections.",
}

// explain puts a sentence that says what to do before a failure.
func explain(err error) error {
	server, is := errors.AsType[*pgconn.PgError](err)
	var connecting *pgconn.ConnectError
	switch {
	case is && server.Code == "42501":
		return fmt.Errorf("pg: %w: %w", missingRight, err)
	case is && advice[server.Code] != "":
		return fmt.Errorf("pg: %s (%w)", advice[server.Code], err)
	case errors.As(err, &connecting):
		return fmt.Errorf("pg: No PostgreSQL that takes writes can be reached: check host and port in the URL, and that it runs. (%w)", err)
	}
	return fmt.Errorf("pg: %w", err)
}

var missingRight = fmt.Errorf("%w: Its role lacks a right. Let it own the schema: ALTER SCHEMA ... OWNER TO ..., or, "+
	"before the first start, GRANT CREATE ON DATABASE ... TO ...", cluster.ErrPromise)
