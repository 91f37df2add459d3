// pepsi-stage-recipient-cap: messages to more than MAX recipients go to the stage HOLD, where an operator looks at them; the rest
// goes on. An example of a stage module in C++17. What a C++ author must know:
//
//  - PEPSI_STAGE() is C; here the descriptor is an aggregate, in the order of the header, declared extern "C".
//  - No exception may leave a hook: the host is C.
//  - Per-worker state is an object behind *ret_worker, made in open() and deleted in close().
#include <pepsi/stage.h>

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>

namespace {

constexpr std::int64_t max_default = 50;

const pepsi_option options[] = {
	{"MAX", PEPSI_OPT_INT, 0, "50", 1, 100000, nullptr, "recipients a message may have"},
	{"HOLD", PEPSI_OPT_STAGE, PEPSI_OPTF_REQUIRED, nullptr, 0, 0, nullptr, "stage for messages that have more"},
	{"EXEMPT", PEPSI_OPT_LIST, 0, nullptr, 0, 0, nullptr, "senders that may have any number"},
};

std::string_view view(pepsi_str s)
{
	return s.n ? std::string_view(s.p, s.n) : std::string_view();
}

class Cap {
public:
	Cap(const pepsi_host &host, const pepsi_conf *conf)
	    : max_(host.conf_int(conf, "MAX")), hold_(host.conf_str(conf, "HOLD"))
	{
		if (max_ <= 0)
			max_ = max_default;
		if (const char *list = host.conf_str(conf, "EXEMPT"))
			exempt_ = " " + std::string(list) + " ";
	}

	std::int32_t process(const pepsi_host &host, pepsi_msg *msg) const
	{
		const auto n = static_cast<std::int64_t>(host.n_rcpt(msg));
		if (n <= max_ || exempt(view(host.mail_from(msg))))
			return host.advance(msg);
		const std::string text = "has " + std::to_string(n) + " recipients, more than " + std::to_string(max_);
		host.log(msg, PEPSI_LOG_INFO, text.c_str());
		return host.reroute(msg, hold_.c_str(), ("{\"recipient_cap\":{\"recipients\":" + std::to_string(n) + "}}").c_str());
	}

private:
	bool exempt(std::string_view sender) const
	{
		return !sender.empty() && exempt_.find(" " + std::string(sender) + " ") != std::string::npos;
	}

	std::int64_t max_;
	std::string hold_, exempt_;
};

std::int32_t open_worker(const pepsi_host *host, const pepsi_conf *conf, void **ret)
{
	try {
		*ret = std::make_unique<Cap>(*host, conf).release();
		return PEPSI_OK;
	} catch (const std::exception &e) {
		host->log(nullptr, PEPSI_LOG_ERROR, e.what());
		return PEPSI_RETRY;
	}
}

std::int32_t process(void *worker, const pepsi_host *host, pepsi_msg *msg)
{
	try {
		return static_cast<const Cap *>(worker)->process(*host, msg);
	} catch (const std::exception &e) { // out of memory: the environment's fault
		host->log(msg, PEPSI_LOG_WARN, e.what());
		return PEPSI_RETRY;
	}
}

void close_worker(void *worker)
{
	delete static_cast<Cap *>(worker);
}

} // namespace

// By name, not by place: members that later versions append stay null, and no compiler misses them.
static constexpr pepsi_stage describe()
{
	pepsi_stage s{};
	s.abi = PEPSI_ABI_OF(pepsi_stage);
	s.name = "pepsi-stage-recipient-cap";
	s.version = "1.0";
	s.license = "Apache-2.0";
	s.summary = "holds messages to very many recipients";
	s.load_class = PEPSI_LOAD_METADATA;
	s.option_size = static_cast<std::uint32_t>(sizeof(pepsi_option));
	s.options = options;
	s.n_options = sizeof options / sizeof *options;
	s.open = open_worker;
	s.process = process;
	s.close = close_worker;
	return s;
}

extern "C" {
PEPSI_EXPORT extern const pepsi_stage pepsi_stage_descriptor;
constexpr pepsi_stage pepsi_stage_descriptor = describe();
}
