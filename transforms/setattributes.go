package transforms

import "encoding/json"

type setAttributesConfig struct {
	SetAttributes map[string]json.RawMessage `json:"setAttributes" doc:"Values by attribute: type, subject, source, partitionkey, time, dataschema, datacontenttype or an extension. Text is an expression; a number or boolean is that value itself." spec:"required"`
	common
}

func setAttributesKind() Kind {
	return kindOfStep(Kind{
		Name:    "setAttributes",
		Summary: "Sets attributes of the event to the values of expressions.",
		Docs: `All expressions see the event as it came into the step. Null removes an attribute; source and type cannot be
removed, and id stays. Booleans and 32-bit integers keep their type in an extension. On a tombstone an expression without a
value changes nothing, so a key taken from data keeps its place.`,
		Example: `setAttributes: {type: "'order.big'", partitionkey: data.customer.id, region: data.region}`,
	}, func(c *compiler, config setAttributesConfig) (step, error) {
		return c.compileSet("setAttributes", config.SetAttributes, true)
	})
}
