package transforms

import (
	"encoding/json"

	"millrace/bus/event"
)

type filterConfig struct {
	Filter struct {
		When  json.RawMessage `json:"when" doc:"An event pattern that the event must match."`
		Where json.RawMessage `json:"where" doc:"An expression that must be true."`
	} `json:"filter" doc:"What events must fulfil to stay: when, where, or both." spec:"required"`
	common
}

func filterKind() Kind {
	return kindOfStep(Kind{
		Name:    "filter",
		Summary: "Drops events that do not match a pattern or an expression.",
		Docs: `An expression that fails on an event (it compares text with a number, say) counts as false, as in the rule's own
` + "`where`" + `; such events are counted as misses.`,
		Example: `filter: {where: "data.amount > 100"}`,
	}, func(c *compiler, config filterConfig) (step, error) {
		when, where := config.Filter.When, config.Filter.Where
		if len(when) == 0 && len(where) == 0 {
			return nil, &Error{Field: "filter", Msg: "needs when (a pattern), where (an expression), or both"}
		}
		st := &filterStep{miss: func(err error) {
			if c.env.Miss != nil {
				c.env.Miss(c.index, err)
			}
		}}
		if len(when) > 0 {
			cond, err := c.compileWhen(when)
			if err != nil {
				return nil, at("filter.when", err)
			}
			st.cond.pattern = cond.pattern
		}
		if len(where) > 0 {
			cond, err := c.compileWhere(where)
			if err != nil {
				return nil, at("filter.where", err)
			}
			st.cond.expr = cond.expr
		}
		return st, nil
	})
}

type filterStep struct {
	cond condition
	miss func(error)
}

func (st *filterStep) apply(s *scratch, e event.Event, out []event.Event) ([]event.Event, error) {
	if st.cond.holds(s, st.miss) {
		out = append(out, e)
	}
	return out, nil
}
