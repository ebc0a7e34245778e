package desired

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"millrace/api/rest"
	"millrace/rules"
	"millrace/schemas/spec"
	"millrace/transforms"
)

// Problems lists what is wrong with a connector's config, whichever part of it
// found that.
func Problems(err error) []spec.Problem {
	if se, ok := errors.AsType[*spec.Error](err); ok {
		return se.Problems
	}
	if re, ok := errors.AsType[*rules.Error](err); ok {
		return []spec.Problem{{Path: re.Field, Msg: re.Msg}}
	}
	if te, ok := errors.AsType[*transforms.Error](err); ok {
		return []spec.Problem{{Path: te.Field, Msg: te.Msg}}
	}
	return []spec.Problem{{Msg: err.Error()}}
}

// invalidConfig is Kafka Connect's text for a config with errors.
func invalidConfig(err error, class string) error {
	problems := Problems(err)
	var b strings.Builder
	fmt.Fprintf(&b, "Connector configuration is invalid and contains the following %d error(s):", len(problems))
	for _, p := range problems {
		b.WriteString("\n" + p.String())
	}
	fmt.Fprintf(&b, "\nYou can also find the above list of errors at the endpoint `/connector-plugins/%s/config/validate`", class)
	field := ""
	if len(problems) > 0 {
		field = problems[0].Path
	}
	return &rest.Error{Status: http.StatusBadRequest, Field: field, Msg: b.String()}
}
