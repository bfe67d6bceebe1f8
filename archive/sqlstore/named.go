package sqlstore

import (
	"strconv"
	"strings"
)

// named are the values of named parameters such as @day, as the only argument of all, one and find. So a query can be put together of parts, such
// as a condition, that do not know each other's parameters. A list of texts, which must have one at least, stands for all of them: IN (@plans).
// Values that a query does not name are ignored.
type named map[string]any

// bindNamed returns a query and its arguments without named.
func bindNamed(query string, args []any) (string, []any) {
	if len(args) == 1 {
		if values, ok := args[0].(named); ok {
			return values.bind(query)
		}
	}
	return query, args
}

// bind numbers the parameters of a query, as both databases have them, and returns their values.
func (n named) bind(query string) (_ string, args []any) {
	var text strings.Builder
	text.Grow(len(query))
	numbers := make(map[string]string, len(n))
	for {
		before, after, found := strings.Cut(query, "@")
		text.WriteString(before)
		if !found {
			return text.String(), args
		}
		query = strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyz_")
		name := after[:len(after)-len(query)]
		if numbers[name] == "" {
			numbers[name] = n.number(name, &args)
		}
		text.WriteString(numbers[name])
	}
}

// number appends a value to the arguments, and returns their numbers.
func (n named) number(name string, args *[]any) string {
	value, known := n[name]
	list, isList := value.([]string)
	if !known || isList && len(list) == 0 {
		panic("BUG: a query has no value for @" + name)
	}
	if !isList {
		*args = append(*args, value)
		return "$" + strconv.Itoa(len(*args))
	}
	numbers := make([]string, len(list))
	for i, element := range list {
		*args = append(*args, element)
		numbers[i] = "$" + strconv.Itoa(len(*args))
	}
	return strings.Join(numbers, ", ")
}
