package sqlstore

import (
	"context"
	"errors"
	"fmt"
)

// MovePlan describes what a Move would do.
type MovePlan struct {
	Revision int64          // of the state of the source that was read
	Objects  map[string]int // number of objects of each resource
	Begun    bool           // the target was begun to be filled; another process may be filling it now
	Seen     int64          // of a target that was begun: the revision of the source whose state it has; 0: parts of one
	Rows     int            // of a target that was begun: the number of its objects
	History  bool           // the source has an object history, which stays there
}

// CheckMove returns what OpenMove and Switch would do, and writes nothing. Errors: those of OpenMove. After an error
// about the target, the plan is complete.
func CheckMove(ctx context.Context, from, to Options) (MovePlan, error) {
	plan := MovePlan{Objects: map[string]int{}}
	name, history, err := checkMoveSource(ctx, &from, &to, func(s *Source) error {
		plan.Revision = s.State().Revision
		return s.count(ctx, plan.Objects)
	})
	plan.History = history
	if err != nil {
		return plan, err
	}
	err = CheckTarget(ctx, to)
	if plan.Begun = errors.Is(err, ErrMoving); plan.Begun {
		err = plan.readBegun(ctx, &to, name)
	} else if err == nil && isPostgres(to.URL) {
		err = mayMakeTables(ctx, &to) // also if others have made tables there: the move makes one of its own
	}
	if err != nil {
		err = fmt.Errorf("fill the database: %w", err)
	}
	return plan, err
}

// readBegun reads how far an interrupted run from a source has come.
func (p *MovePlan) readBegun(ctx context.Context, to *Options, from string) (err error) {
	s := &Source{postgres: isPostgres(to.URL)}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.postgres {
		err = s.openPostgres(ctx, to)
	} else if path, perr := sqliteTargetPath(to.URL); perr != nil {
		err = perr
	} else {
		err = s.openFile(ctx, path+moving)
	}
	if err != nil {
		return err
	}
	// A run that ended before it created this table has copied nothing. A target that was complete but not yet renamed is filled again.
	if there, err := hasTable(ctx, s.tx, s.postgres, "moving"); err != nil || !there {
		return err
	}
	var source string
	if err := s.tx.QueryRowContext(ctx, "SELECT source, revision, (SELECT count(*) FROM objects) FROM moving").Scan(&source, &p.Seen, &p.Rows); err != nil {
		return err
	}
	if source != from {
		p.Begun, p.Seen = false, 0
		return partOf(source)
	}
	return nil
}

// count counts the objects of each resource.
func (s *Source) count(ctx context.Context, objects map[string]int) (err error) {
	rows, err := s.tx.QueryContext(ctx, "SELECT resource, count(*) FROM objects GROUP BY resource")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var resource string
		var n int
		if err := rows.Scan(&resource, &n); err != nil {
			return err
		}
		objects[resource] = n
	}
	return rows.Err()
}
