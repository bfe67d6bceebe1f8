package docs

// Explanations returns the explanations of all error codes. The requests are about a property example.com.
func Explanations() []Explanation {
	return append(append(requestExplanations(), keyExplanations()...), limitExplanations()...)
}

func requestExplanations() []Explanation {
	return []Explanation{
		{Code: "VALIDATION_ERROR",
			When: "A parameter is malformed, out of its range, empty, or given twice; `filters` is not a JSON array of filter " +
				"objects; a filter names a brand or page group that the property does not have. A request that cannot be read " +
				"as HTTP gets the same code, with status 408 if it did not arrive in time.",
			Do:      "Correct the request: the message names the parameter and its valid values. Repeating the same request does not help.",
			Request: "/v1/properties/example.com/queries?limit=0", Message: `limit "0" is not an integer from 1 to 1000`},
		{Code: "DATE_RANGE_TOO_OLD",
			When: "The range, or with `compare` or in the movers the period that it is compared with, begins before the history " +
				"that the plan keeps, or ends before the first archived day of the property.",
			Do:      "Start at the day that the message names. `data_window.earliest_data_date` of the property is its first day of data.",
			Request: "/v1/properties/example.com/summary?start_date=2020-01-01&end_date=2020-01-31",
			Message: "the range starts on 2020-01-01, before the history that the plan keeps; the earliest date allowed is 2023-11-20"},
		{Code: "UNSUPPORTED_PARAMETER",
			When: "The endpoint has no such parameter. Unknown parameters are never ignored, so that no answer is mistaken for " +
				"another one. `filters` on the movers is refused for the same reason.",
			Do:      "Leave the parameter out, or correct its name. To compare a segment over time, request `/queries` twice with explicit dates.",
			Request: "/v1/properties/example.com/movers/queries?filters=[]",
			Message: "this endpoint does not accept filters; to compare a segment, request /queries or /pages twice with explicit ranges"},
		{Code: "PROPERTY_AMBIGUOUS",
			When: "The path names a bare domain for which more than one property is connected, such as a domain property and a " +
				"URL prefix of the same host.",
			Do:      "Use one of the ids in the message, or the property's slug or its full string in Search Console.",
			Request: "/v1/properties/twin.example",
			Message: `"twin.example" matches 2 properties: use one of the ids 01a1ffe3-3c2f-7326-b3e8-12d2826a692e, 01a1ffe3-3c35-7bd8-be39-a10a881af4c6`},
		{Code: "NOT_FOUND",
			When: "The key has no access to such a property, whether or not it exists, or the path does not exist.",
			Do: "Look the property up in `/v1/properties`; archived ones are listed with `include_archived=true`. A property's own " +
				"URL has to be percent-encoded as one path segment: `https%3A%2F%2Fexample.com%2F`.",
			Request: "/v1/properties/unknown.example", Message: `there is no property "unknown.example" that this key can reach`},
		{Code: "METHOD_NOT_ALLOWED",
			When: "The method is neither `GET` nor `HEAD`. The API is read-only, and a browser's preflight `OPTIONS` is refused too: call " +
				"it from a server, not from pages of other sites.",
			Do:      "Use `GET`, or `HEAD` for the headers alone, which is charged alike.",
			Message: "the method POST is not allowed: every endpoint is read with GET or HEAD"},
		{Code: "REQUEST_TOO_LARGE",
			When: "The URL is longer than 24 KiB (status 414), the URL and the headers are longer than 32 KiB (431), or there is a " +
				"body of more than 1 KiB (413).",
			Do: "Use fewer or shorter filters, and send no body.", Message: "the URL is longer than 24576 bytes"},
	}
}

func keyExplanations() []Explanation {
	return []Explanation{
		{Code: "INVALID_API_KEY",
			When:    "The header `Authorization: Bearer <API_KEY>` is missing or malformed, or the key is unknown.",
			Do:      "Send the whole key in this one header. A lost key cannot be recovered: create another one.",
			Request: "/v1/me", Message: "the request has no key: send the header Authorization: Bearer <API_KEY>"},
		{Code: "API_KEY_REVOKED", When: "The key was revoked.", Do: "Create another key, and find out who revoked this one.",
			Request: "/v1/me", Message: "the key was revoked: create another one"},
		{Code: "API_KEY_EXPIRED", When: "The expiry that the key was created with has passed.", Do: "Create another key.",
			Request: "/v1/me", Message: "the key expired on 2026-11-21T19:00:00Z: create another one"},
		{Code: "ADDRESS_NOT_ALLOWED",
			When: "The key is restricted to certain networks, and the request comes from none of them. The message names the address that " +
				"the request came from. It is checked on every request.",
			Do:      "Send the request from an allowed network, or ask who administers the key to allow yours.",
			Request: "/v1/me", Message: "the key cannot be used from the address 127.0.0.1: ask its administrator to allow the address"},
		{Code: "ORIGIN_NOT_ALLOWED",
			When: "A message to `/mcp` comes from a web page of another site, or names a host that is not the service's: a browser may have " +
				"been tricked into sending it.",
			Do:      "Call `/mcp` from a program, not from a page. If the message names the service's own host, the operator has to set `SARA_BASE_URL`.",
			Message: "the request comes from a page of another site"},
		{Code: "API_ACCESS_REQUIRED",
			When:    "The account's plan, such as a trial, has no API access, or the plan has ended. It is checked on every request.",
			Do:      "Start or renew a paid plan. The same key then works at once.",
			Request: "/v1/me", Message: "the account's plan has no access to the API: a paid plan is required"},
		{Code: "INSUFFICIENT_SCOPE",
			When:    "The key lacks the scope that the endpoint requires; the reference lists it for each endpoint.",
			Do:      "Create a key with the scope. `/v1/me` lists the scopes of a key.",
			Request: "/v1/properties/example.com/summary", Message: "the key lacks the scope performance:read"},
	}
}

func limitExplanations() []Explanation {
	return []Explanation{
		{Code: "RATE_LIMITED",
			When: "The key's requests per minute or the account's requests per hour are used up, or too many keys that are " +
				"unknown, or not for the address, were tried from one address. The message says which.",
			Do:      "Wait for `Retry-After`, then continue more slowly. Refused requests are not counted.",
			Message: "the key's 20 requests a minute are used up; try again in 3 seconds"},
		{Code: "QUOTA_EXCEEDED",
			When: "The account's requests per day, or its live Search Console calls per day, are used up. In the latter case, " +
				"cached answers and archived ranges are still served.",
			Do:      "Wait until midnight UTC, when `Retry-After` ends, or upgrade the plan.",
			Message: "the account's 1000 requests a day are used up; the allowance resets at midnight UTC; try again in 30412 seconds"},
		{Code: "UPSTREAM_QUOTA_EXCEEDED",
			When: "The property's live calls per minute are used up, and there is no cached answer; or Search Console's own quota " +
				"for it is used up, and no stored data can replace the answer. Other properties are not affected.",
			Do:      "Wait for `Retry-After`. Send fewer different requests: repeated ones are answered from the cache.",
			Message: "the property's 30 live Search Console calls a minute are used up; try again in 2 seconds"},
		{Code: "INTERNAL_ERROR",
			When:    "Something went wrong on our side.",
			Do:      "Try again once. If it fails again, report it with the `request_id`.",
			Message: "something went wrong on our side; quote the request id when you report it"},
		{Code: "FILTERED_DATA_UNAVAILABLE",
			When: "The request has filters, and the figures cannot be read live: Search Console does not answer, the property is " +
				"archived or disconnected, or the range begins before the live window. Unfiltered figures are never served instead.",
			Do: "Try again after `Retry-After`. Without that header, the days are never live: choose a range within the live window, " +
				"or leave the filters out.",
			Message: "filtered figures are only available live: Search Console does not answer right now"},
		{Code: "UPSTREAM_UNAVAILABLE",
			When: "Live figures are needed, Search Console cannot be reached or does not answer, and no stored data can replace them.",
			Do: "Try again after `Retry-After`. If it keeps failing, `connection` of the property says whether its owner has to " +
				"reconnect the account.",
			Message: "Search Console does not answer right now"},
		{Code: "SERVICE_UNAVAILABLE",
			When: "The service cannot reach its own database, did not finish the request in time, or is busy with other questions for live " +
				"figures.",
			Do:      "Try again after `Retry-After`.",
			Message: "the service cannot look up what it needs right now"},
	}
}
