package connect

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"millrace/api/desired"
	"millrace/api/rest"
	"millrace/bus"
	"millrace/workers"
)

// restarting is what a restart answers for the parts it touches.
const restarting = "RESTARTING"

// state is Connect's ConnectorStateInfo. Ignored lists the keys of a config
// written for another runtime that mean nothing here.
type state struct {
	Name      string      `json:"name"`
	Connector partState   `json:"connector"`
	Tasks     []taskState `json:"tasks"`
	Type      string      `json:"type"`
	Ignored   []string    `json:"ignored,omitempty"`
}

type partState struct {
	State    string `json:"state"`
	WorkerID string `json:"worker_id"`
	Trace    string `json:"trace,omitempty"`
}

type taskState struct {
	ID       int    `json:"id"`
	State    string `json:"state"`
	WorkerID string `json:"worker_id"`
	Trace    string `json:"trace,omitempty"`
}

// stateOf puts together what the workers last wrote. A stopped connector has no
// tasks, whatever they wrote before they ended; a webhook source has none ever
// and runs on every node.
func (s *Service) stateOf(ctx context.Context, name string, c *desired.Connector) (state, error) {
	st := state{Name: name, Tasks: []taskState{}, Type: c.Type(), Ignored: c.Ignored}
	st.Connector = partState{State: workers.StateUnassigned}
	switch {
	case c.Def.State == workers.StateStopped:
		st.Connector = partState{State: workers.StateStopped, WorkerID: s.WorkerID}
		return st, nil
	case c.Source != nil && c.Source.Receiver != nil:
		st.Connector = partState{State: c.Def.State, WorkerID: s.WorkerID}
		return st, nil
	}
	var part workers.ConnectorStatus
	found, err := s.record(ctx, workers.StatusKey(name), &part)
	if err != nil {
		return st, err
	}
	if found {
		st.Connector = partState{part.State, part.WorkerID, part.Trace}
	}
	st.Tasks, err = s.taskStates(ctx, name)
	return st, err
}

// record reads one status record.
func (s *Service) record(ctx context.Context, key string, into any) (bool, error) {
	records, err := s.Client.Scan(ctx, bus.TopicStatus, key, "", 1)
	if errors.Is(err, bus.ErrNoTopic) || err == nil && (len(records) == 0 || records[0].Key != key) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(records[0].Data, into)
}

func (s *Service) taskStates(ctx context.Context, name string) ([]taskState, error) {
	prefix := strings.TrimSuffix(workers.TaskStatusKey(name, 0), "0")
	out := []taskState{}
	for after := ""; ; {
		records, err := s.Client.Scan(ctx, bus.TopicStatus, prefix, after, 0)
		if errors.Is(err, bus.ErrNoTopic) || err == nil && len(records) == 0 {
			slices.SortFunc(out, func(a, b taskState) int { return a.ID - b.ID })
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			after = r.Key
			if _, err := strconv.Atoi(r.Key[len(prefix):]); err != nil {
				continue // of a connector whose name begins with this one's
			}
			var t workers.TaskStatus
			if err := json.Unmarshal(r.Data, &t); err != nil {
				return nil, err
			}
			out = append(out, taskState{t.ID, t.State, t.WorkerID, t.Trace})
		}
	}
}

func (s *Service) connectorState(ctx context.Context, name string) (desired.Connector, state, error) {
	c, err := s.Desired.Connector(ctx, name)
	if err != nil {
		return c, state{}, err
	}
	st, err := s.stateOf(ctx, name, &c)
	return c, st, err
}

func (s *Service) status(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	_, st, err := s.connectorState(ctx, r.Params["connector"])
	return rest.Answer{Body: st}, err
}

type task struct {
	ID     taskID            `json:"id"`
	Config map[string]string `json:"config"`
}

func (s *Service) tasks(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	name := r.Params["connector"]
	c, st, err := s.connectorState(ctx, name)
	if err != nil {
		return rest.Answer{}, err
	}
	out := []task{}
	for _, t := range st.Tasks {
		out = append(out, task{taskID{name, t.ID}, s.shown(c.Def.Config)})
	}
	return rest.OK(out)
}

// task finds one task's state, or a 404.
func (s *Service) task(ctx context.Context, r *rest.Request) (taskState, error) {
	name := r.Params["connector"]
	_, st, err := s.connectorState(ctx, name)
	if err != nil {
		return taskState{}, err
	}
	id, err := strconv.Atoi(r.Params["task"])
	i := slices.IndexFunc(st.Tasks, func(t taskState) bool { return t.ID == id })
	if err != nil || i < 0 {
		return taskState{}, rest.NotFound("Unknown task: %s-%s", name, r.Params["task"])
	}
	return st.Tasks[i], nil
}

func (s *Service) taskStatus(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	t, err := s.task(ctx, r)
	return rest.Answer{Body: t}, err
}

// wish sets the state that a connector shall have.
func (s *Service) wish(state string, status int) rest.Handler {
	return func(ctx context.Context, r *rest.Request) (rest.Answer, error) {
		name := r.Params["connector"]
		err := s.plan(ctx, func(p *desired.Plan) error {
			if def, ok := p.Connectors[name]; ok && def.State == state {
				return nil
			}
			return p.ChangeConnector(name, func(d *workers.ConnectorDef) { d.State = state })
		})
		return rest.Answer{Status: status}, err
	}
}

// bump asks for restarts: "" means all tasks, else a task's number.
func (s *Service) bump(ctx context.Context, name string, parts []string) error {
	if len(parts) == 0 {
		return nil
	}
	return s.plan(ctx, func(p *desired.Plan) error {
		return p.ChangeConnector(name, func(d *workers.ConnectorDef) {
			if d.Restarts == nil {
				d.Restarts = map[string]int{}
			}
			for _, part := range parts {
				d.Restarts[part]++
			}
		})
	})
}

func (s *Service) restartTask(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	t, err := s.task(ctx, r)
	if err != nil {
		return rest.Answer{}, err
	}
	err = s.bump(ctx, r.Params["connector"], []string{strconv.Itoa(t.ID)})
	return rest.Answer{Status: http.StatusNoContent}, err
}

// restart touches the connector, with includeTasks its tasks too, with onlyFailed
// the failed ones only. A connector has no part of its own beside its tasks: it
// is started anew only where it failed as a whole.
func (s *Service) restart(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	tasks, err := r.Bool("includeTasks")
	if err != nil {
		return rest.Answer{}, err
	}
	failed, err := r.Bool("onlyFailed")
	if err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["connector"]
	_, st, err := s.connectorState(ctx, name)
	if err != nil {
		return rest.Answer{}, err
	}
	var parts []string
	if st.Connector.State == workers.StateFailed || tasks && !failed {
		parts = append(parts, "")
		st.Connector.State = restarting
	}
	for i := range st.Tasks {
		t := &st.Tasks[i]
		if !tasks || failed && t.State != workers.StateFailed {
			continue
		}
		t.State = restarting
		if failed {
			parts = append(parts, strconv.Itoa(t.ID))
		}
	}
	if err := s.bump(ctx, name, parts); err != nil {
		return rest.Answer{}, err
	}
	if !tasks && !failed {
		return rest.Answer{Status: http.StatusNoContent}, nil
	}
	return rest.Answer{Status: http.StatusAccepted, Body: st}, nil
}
