#include "store/pull.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/env_forward.h"
#include "base/sha256.h"
#include "support/support.h"

namespace ondol::store {
namespace {

namespace fs = std::filesystem;

/// tests/e2e/hub.py as a child process.
class HubProcess {
 public:
  explicit HubProcess(const std::string& log) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return;
    const std::string script =
        fs::path(test::data_path("../e2e/hub.py")).lexically_normal().string();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      execlp("python3", "python3", "-I", "-S", script.c_str(), log.c_str(),
             static_cast<char*>(nullptr));
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    stdin_ = to[1];
    FILE* out = fdopen(from[0], "r");
    if (fscanf(out, "%d %d", &port, &other_port) != 2) port = 0;
    fclose(out);
  }
  ~HubProcess() {
    close(stdin_);  // which it takes as its end
    waitpid(pid_, nullptr, 0);
  }
  HubProcess(const HubProcess&) = delete;
  HubProcess& operator=(const HubProcess&) = delete;

  int port = 0, other_port = 0;

 private:
  int stdin_ = -1;
  pid_t pid_ = -1;
};

/// The real files, but a disk that is full after some bytes, or has little room left.
class SmallDisk final : public EnvForward {
 public:
  SmallDisk() : EnvForward(Env::real()) {}
  uint64_t room = 1ull << 40;      ///< what free_space says
  uint64_t writable = UINT64_MAX;  ///< bytes until writing fails

  Result<std::unique_ptr<WritableFile>> open_writable(const std::string& path,
                                                      WriteMode mode) override {
    auto file = EnvForward::open_writable(path, mode);
    if (!file) return file;
    return std::make_unique<File>(*this, std::move(*file));
  }
  Result<uint64_t> free_space(const std::string&) override { return room; }

 private:
  class File final : public WritableFile {
   public:
    File(SmallDisk& disk, std::unique_ptr<WritableFile> file)
        : disk_(disk), file_(std::move(file)) {}
    Result<void> append(std::span<const std::byte> bytes) override {
      if (bytes.size() > disk_.writable) return failed("cannot write: No space left on device");
      disk_.writable -= bytes.size();
      return file_->append(bytes);
    }
    Result<void> sync() override { return file_->sync(); }
    Result<void> close() override { return file_->close(); }

   private:
    SmallDisk& disk_;
    std::unique_ptr<WritableFile> file_;
  };
};

class PullTest : public testing::Test {
 protected:
  static std::string folder() {
    return testing::TempDir() + "pull_" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  void SetUp() override {
    ASSERT_GT(hub_.port, 0) << "python3 is needed for this test";
    options_.endpoint = "http://127.0.0.1:" + std::to_string(hub_.port);
    options_.backoff = std::chrono::milliseconds(5);
    options_.stall_timeout = std::chrono::seconds(1);
  }
  void TearDown() override { fs::remove_all(folder()); }
  static std::string make_folder() {
    fs::remove_all(folder());
    fs::create_directories(folder());
    return folder();
  }

  Result<Pulled> pull_repo(const std::string& repo) {
    return pull(store_, *parse_hub_spec("hf:t/" + repo), options_);
  }
  /// Expects success and the right bytes.
  Pulled good(const std::string& repo) {
    auto result = pull_repo(repo);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    if (!result) return {};
    check_content(result->entry);
    return std::move(*result);
  }
  void check_content(const Entry& entry) {
    const std::vector<HubFile> files = entry.origin.value_or(Origin{}).files;
    ASSERT_FALSE(files.empty());
    for (const HubFile& file : files) {
      const bool single = files.size() == 1;
      const std::string path =
          single ? entry.path
                 : (fs::path(entry.path).parent_path() / base_name(file.path)).string();
      const std::string text = test::read_file(path);
      EXPECT_EQ(text.size(), file.size);
      Sha256 hash;
      hash.update(std::as_bytes(std::span(text)));
      EXPECT_EQ(hash.finish(), file.sha256);
    }
  }
  /// Expects failure, nothing in the store, and no file under a final name.
  Error bad(const std::string& repo) {
    auto result = pull_repo(repo);
    EXPECT_FALSE(result) << repo;
    EXPECT_TRUE(store_.list().value().empty());
    return result ? Error{} : result.error();
  }
  std::vector<std::string> left_over() const {
    std::vector<std::string> names;
    const fs::path partial = folder() + "/store/models/.partial";
    if (!fs::exists(partial)) return names;
    for (const auto& entry : fs::recursive_directory_iterator(partial)) {
      if (entry.is_regular_file()) names.push_back(entry.path().string());
    }
    return names;
  }
  std::vector<boost::json::object> requests() const {
    return test::read_json_lines(folder() + "/log");
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  HubProcess hub_{make_folder() + "/log"};
  SmallDisk disk_;
  Store store_{disk_, folder() + "/store"};
  PullOptions options_;
};

TEST_F(PullTest, FetchesOnceAndIsThenUpToDate) {
  uint64_t last = 0, total = 0;
  options_.on_progress = [&](const Progress& progress) {
    EXPECT_GE(progress.done, last);
    last = progress.done;
    total = progress.total;
    return true;
  };
  const Pulled first = good("ok");
  EXPECT_EQ(first.entry.name, "ok-model");
  EXPECT_FALSE(first.up_to_date);
  EXPECT_EQ(first.downloaded, first.entry.size);
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, first.entry.size);
  EXPECT_TRUE(left_over().empty());
  const size_t before = requests().size();
  last = 0;
  const Pulled again = good("ok");
  EXPECT_TRUE(again.up_to_date);
  EXPECT_EQ(again.downloaded, 0u);
  EXPECT_EQ(requests().size(), before + 1) << "only the list of files";
  EXPECT_EQ(store_.resolve("hf:t/ok").value(), first.entry.path);
  EXPECT_EQ(store_.resolve("ok-model").value(), first.entry.path);
  // A damaged file is fetched again.
  fs::resize_file(first.entry.path, 10);
  last = 0;
  EXPECT_FALSE(good("ok").up_to_date);
}

TEST_F(PullTest, NamesAndSelectors) {
  options_.name = "mine";
  EXPECT_EQ(good("several:Q8_0").entry.name, "mine");
  EXPECT_NE(pull_repo("several:Q4_0").error().message.find("another model 'mine'"),
            std::string::npos);
  options_.name = "../mine";
  EXPECT_EQ(pull_repo("several:Q4_0").error().kind, ErrorKind::kUsage);
  options_.name.clear();
  EXPECT_EQ(good("several:m-Q4_0.gguf").entry.name, "m-Q4_0");
  EXPECT_EQ(pull_repo("several").error().kind, ErrorKind::kUsage);
  EXPECT_TRUE(has(pull_repo("several:Q2_K").error().message, "m-Q4_0.gguf"));
  EXPECT_EQ(store_.resolve("hf:t/several:q8_0").value(), store_.resolve("mine").value());
  EXPECT_TRUE(has(store_.resolve("hf:t/several").error().message, "several"));
  EXPECT_EQ(good("space").entry.name, "my-model");
}

TEST_F(PullTest, SplitModelsArriveWhole) {
  const Pulled pulled = good("split:Q8_0");
  EXPECT_TRUE(pulled.entry.path.ends_with("models/m-Q8_0/m-Q8_0-00001-of-00003.gguf"));
  EXPECT_EQ(pulled.entry.origin.value_or(Origin{}).files.size(), 3u);
  EXPECT_TRUE(good("split").up_to_date);
  EXPECT_TRUE(left_over().empty());
  fs::remove(fs::path(pulled.entry.path).parent_path() / "m-Q8_0-00002-of-00003.gguf");
  EXPECT_FALSE(good("split").up_to_date);
}

TEST_F(PullTest, AnImportedFileWithTheSameContentIsTaken) {
  const Pulled pulled = good("ok");
  fs::remove_all(folder() + "/store/models/.origin");
  EXPECT_TRUE(good("ok").up_to_date);
  EXPECT_TRUE(store_.resolve("hf:t/ok"));
}

TEST_F(PullTest, BrokenTransfersAreResumed) {
  const Pulled cut = good("cut");
  EXPECT_EQ(cut.downloaded, cut.entry.size) << "no byte twice";
  EXPECT_EQ(requests().back().at("range").as_string(), "bytes=2097152-");
  good("flaky");
  good("busy");
  good("stall");
  good("silent");
  EXPECT_TRUE(left_over().empty());
}

TEST_F(PullTest, AServerWithoutRangesIsReadFromTheStart) {
  const Pulled pulled = good("norange");
  EXPECT_GT(pulled.downloaded, pulled.entry.size);
}

TEST_F(PullTest, AttemptsAreLimitedAndWhatArrivedIsKept) {
  options_.max_retries = 2;
  EXPECT_TRUE(has(bad("alwayscut").message, "after 3 attempts"));
  ASSERT_EQ(left_over().size(), 1u);
  EXPECT_EQ(fs::file_size(left_over()[0]), 3000u);
  EXPECT_TRUE(has(bad("down").message, "503"));
  EXPECT_EQ(store_.remove("alwayscut-model").value(), 3000u)
      << "rm gives unfinished pulls back too";
  EXPECT_TRUE(left_over().empty());
}

TEST_F(PullTest, LiesAreFoundOut) {
  EXPECT_EQ(bad("wrongsha").kind, ErrorKind::kRefused);
  EXPECT_TRUE(left_over().empty());
  EXPECT_EQ(bad("more").kind, ErrorKind::kRefused);
  EXPECT_EQ(bad("short").kind, ErrorKind::kRefused);
  EXPECT_TRUE(has(bad("endless").message, "more than"));
  EXPECT_TRUE(has(bad("htmlfile").message, "web page"));
  EXPECT_TRUE(has(bad("htmllist").message, "JSON"));
  EXPECT_TRUE(has(bad("biglist").message, "larger"));
  EXPECT_TRUE(has(bad("foreignpage").message, "another server"));
  EXPECT_EQ(bad("traversal").kind, ErrorKind::kRefused);
  EXPECT_EQ(bad("absolute").kind, ErrorKind::kRefused);
  EXPECT_TRUE(has(bad("nosha").message, "SHA-256"));
  EXPECT_TRUE(has(bad("impossible").message, "impossible"));
  for (const std::string& path : left_over()) EXPECT_EQ(fs::file_size(path), 0u) << path;
}

TEST_F(PullTest, ARejectedAnswerSaysWhatToDo) {
  EXPECT_TRUE(has(bad("missing").message, "404"));
  EXPECT_TRUE(has(bad("private").message, "HF_TOKEN"));
  EXPECT_EQ(requests().size(), 2u) << "not tried again";
  EXPECT_TRUE(has(bad("endlesserror").message, "404"));
}

TEST_F(PullTest, PagesOfAListAreFollowed) { good("pages"); }

TEST_F(PullTest, TheTokenGoesToTheHubOnly) {
  options_.token = "secret-token";
  good("redirect");
  int elsewhere = 0;
  for (const auto& request : requests()) {
    const bool at_hub = request.at("port").to_number<int>() == hub_.port;
    EXPECT_EQ(request.at("authorization").as_string(), at_hub ? "Bearer secret-token" : "");
    elsewhere += at_hub ? 0 : 1;
  }
  EXPECT_EQ(elsewhere, 1);
}

TEST_F(PullTest, RedirectsHaveLimits) {
  EXPECT_TRUE(has(bad("circle").message, "circles"));
  const std::string outside = bad("outside").message;
  EXPECT_TRUE(has(outside, "only https is safe")) << outside;
  EXPECT_FALSE(has(outside, "secret")) << "signatures are not shown";
  options_.endpoint = "http://127.0.0.1:1";
  options_.max_retries = 1;
  EXPECT_TRUE(has(bad("ok").message, "after 2 attempts"));
  options_.endpoint = "http://example.invalid";
  EXPECT_EQ(bad("ok").kind, ErrorKind::kUsage);
}

TEST_F(PullTest, AnInterruptedPullGoesOnLater) {
  options_.on_progress = [](const Progress& progress) { return progress.done < 500'000; };
  EXPECT_EQ(bad("slow").kind, ErrorKind::kInterrupted);
  ASSERT_EQ(left_over().size(), 1u);
  const uint64_t kept = fs::file_size(left_over()[0]);
  EXPECT_GE(kept, 500'000u);
  options_.on_progress = nullptr;
  const Pulled pulled = good("slow");
  EXPECT_EQ(pulled.downloaded, pulled.entry.size - kept);
}

TEST_F(PullTest, AnInterruptAlsoEndsTheWaiting) {
  options_.backoff = std::chrono::seconds(60);
  int calls = 0;
  options_.on_progress = [&](const Progress&) { return ++calls < 8; };
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(bad("down").kind, ErrorKind::kInterrupted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_F(PullTest, AWrongLeftOverIsThrownAway) {
  for (const std::string repo : {"ok", "unsatisfiable"}) {
    options_.on_progress = [](const Progress& progress) { return progress.done == 0; };
    EXPECT_EQ(pull_repo(repo).error().kind, ErrorKind::kInterrupted);
    options_.on_progress = nullptr;
    ASSERT_EQ(left_over().size(), 1u);
    std::ofstream(left_over()[0], std::ios::binary) << std::string(1000, 'x');
    good(repo);
  }
  options_.on_progress = [](const Progress& progress) { return progress.done == 0; };
  EXPECT_FALSE(pull_repo("wrongrange"));
  options_.on_progress = nullptr;
  ASSERT_GT(fs::file_size(left_over().at(0)), 0u);
  EXPECT_EQ(pull_repo("wrongrange").error().kind, ErrorKind::kRefused);
}

TEST_F(PullTest, TwoPullsOfOneModelDoNotMeet) {
  const auto held = store_.lock("ok-model");
  ASSERT_TRUE(held);
  EXPECT_TRUE(has(bad("ok").message, "another process"));
}

TEST_F(PullTest, AFullDiskIsSaidBeforeAndDuring) {
  EXPECT_TRUE(has(bad("huge").message, "free")) << "2^62 bytes fit nowhere";
  disk_.room = 1 << 20;
  EXPECT_TRUE(has(bad("ok").message, "needs 3.0 MiB more, but only 1.0 MiB are free"));
  disk_.room = 1ull << 40;
  disk_.writable = 1 << 20;
  EXPECT_TRUE(has(bad("ok").message, "No space left"));
  ASSERT_EQ(left_over().size(), 1u);
  disk_.writable = UINT64_MAX;
  const Pulled pulled = good("ok");
  EXPECT_LT(pulled.downloaded, pulled.entry.size);
}

TEST_F(PullTest, OptionsComeFromTheEnvironment) {
  const auto options = PullOptions::from_environment([](const char* name) {
    if (std::string_view(name) == "HF_ENDPOINT") return "https://mirror.example";
    return std::string_view(name) == "HF_TOKEN" ? "" : static_cast<const char*>(nullptr);
  });
  EXPECT_EQ(options.endpoint, "https://mirror.example");
  EXPECT_EQ(options.token, "");
}

}  // namespace
}  // namespace ondol::store
