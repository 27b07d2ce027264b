#include "store/store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace ondol::store {
namespace {

namespace fs = std::filesystem;

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "store_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_ + "/outside");
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string write(const std::string& name, const std::string& text = "GGUF....") {
    const std::string path = root_ + "/outside/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string models(const std::string& name) const { return root_ + "/store/models/" + name; }

  std::string root_;
  Store store_{Env::real(), testing::TempDir() + "store_" +
                                testing::UnitTest::GetInstance()->current_test_info()->name() +
                                "/store"};
};

TEST_F(StoreTest, RootFollowsTheEnvironment) {
  const auto root = [](std::map<std::string, const char*> values) {
    return Store::default_root(
        [&](const char* name) { return values.contains(name) ? values[name] : nullptr; });
  };
  EXPECT_EQ(*root({{"ONDOL_HOME", "/o"}, {"XDG_DATA_HOME", "/x"}, {"HOME", "/h"}}), "/o");
  EXPECT_EQ(*root({{"XDG_DATA_HOME", "/x"}, {"HOME", "/h"}}), "/x/ondol");
  EXPECT_EQ(*root({{"ONDOL_HOME", ""}, {"XDG_DATA_HOME", "relative"}, {"HOME", "/h"}}),
            "/h/.local/share/ondol");
  EXPECT_EQ(root({}).error().kind, ErrorKind::kUsage);
}

TEST_F(StoreTest, AnEmptyStoreListsNothing) {
  EXPECT_TRUE(store_.list().value().empty());
  const auto none = store_.resolve("smollm2");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kRefused);
  EXPECT_NE(none.error().message.find("ondol pull"), std::string::npos);
  EXPECT_FALSE(fs::exists(root_ + "/store")) << "looking makes no folders";
}

TEST_F(StoreTest, ImportsCopiesAndLinks) {
  const std::string file = write("m.gguf");
  const auto copied = store_.import(file, "copy", ImportMode::kCopy);
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_FALSE(copied->is_link);
  const auto linked = store_.import(file, "link", ImportMode::kLink);
  ASSERT_TRUE(linked) << linked.error().message;
  EXPECT_TRUE(linked->is_link);
  const auto entries = store_.list();
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].name, "copy");
  EXPECT_EQ((*entries)[0].size, 8u);
  EXPECT_EQ(store_.resolve("link").value(), models("link.gguf"));
  EXPECT_EQ(store_.resolve(file).value(), file);
  // Removing a link leaves its target alone and gives nothing back.
  EXPECT_EQ(store_.remove("link").value(), 0u);
  EXPECT_TRUE(fs::exists(file));
  EXPECT_EQ(store_.remove("copy").value(), 8u);
  EXPECT_TRUE(store_.list().value().empty());
  EXPECT_TRUE(fs::is_empty(models(".partial")));
}

TEST_F(StoreTest, ImportKeepsWhatIsThereUnlessTold) {
  const std::string a = write("a.gguf"), b = write("b.gguf", "GGUF longer");
  ASSERT_TRUE(store_.import(a, "m", ImportMode::kLink));
  EXPECT_TRUE(store_.import(a, "m", ImportMode::kLink)) << "the same link again is no change";
  const auto taken = store_.import(b, "m", ImportMode::kLink);
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().message.find("'m' already"), std::string::npos);
  EXPECT_EQ(store_.import(b, "m", ImportMode::kCopy, true)->size, 11u);
  EXPECT_TRUE(fs::exists(a));
}

TEST_F(StoreTest, ImportRefusesWhatIsNoModel) {
  EXPECT_EQ(store_.import(write("x.gguf", "ELF"), "x", ImportMode::kCopy).error().kind,
            ErrorKind::kRefused);
  EXPECT_FALSE(store_.import(root_ + "/none.gguf", "x", ImportMode::kLink));
  EXPECT_FALSE(store_.import(root_, "x", ImportMode::kLink));
  for (const char* name : {"../x", "a/b", "..", "", ".x"}) {
    EXPECT_EQ(store_.import(write("m.gguf"), name, ImportMode::kCopy).error().kind,
              ErrorKind::kUsage);
  }
  EXPECT_TRUE(store_.list().value().empty());
}

TEST_F(StoreTest, SplitModelsAreOneEntry) {
  write("m-00002-of-00002.gguf", "GGUF second part");
  const std::string first = write("m-00001-of-00002.gguf");
  for (const ImportMode mode : {ImportMode::kCopy, ImportMode::kLink}) {
    const auto entry = store_.import(first, "m", mode, true);
    ASSERT_TRUE(entry) << entry.error().message;
    EXPECT_EQ(entry->size, 24u);
    EXPECT_EQ(entry->path, models("m/m-00001-of-00002.gguf"));
    EXPECT_EQ(store_.resolve("m").value(), entry->path);
  }
  EXPECT_EQ(
      store_.import(root_ + "/outside/m-00002-of-00002.gguf", "n", ImportMode::kCopy).error().kind,
      ErrorKind::kUsage);
  // A single file takes the folder's place.
  ASSERT_TRUE(store_.import(write("s.gguf"), "m", ImportMode::kCopy, true));
  EXPECT_FALSE(fs::exists(models("m")));
  EXPECT_TRUE(fs::exists(first));
  fs::remove(root_ + "/outside/m-00002-of-00002.gguf");
  EXPECT_FALSE(store_.import(first, "n", ImportMode::kCopy));
}

TEST_F(StoreTest, AMissingTargetIsSaid) {
  const std::string file = write("m.gguf");
  ASSERT_TRUE(store_.import(file, "m", ImportMode::kLink));
  fs::remove(file);
  EXPECT_TRUE(store_.list().value()[0].is_missing);
  const auto gone = store_.resolve("m");
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().message.find("gone"), std::string::npos);
  EXPECT_TRUE(store_.import(write("m.gguf"), "m", ImportMode::kLink, true));
  EXPECT_TRUE(store_.remove("m"));
}

TEST_F(StoreTest, ALinkThatLeadsNowhereIsNotCalledMissing) {
  fs::create_directories(root_);
  fs::create_symlink("gone.gguf", root_ + "/link.gguf");
  fs::create_symlink("loop.gguf", root_ + "/loop.gguf");
  for (const auto& [name, mention] :
       {std::pair{"/link.gguf", "a link to 'gone.gguf'"}, {"/loop.gguf", "back to itself"}}) {
    const auto found = store_.resolve(root_ + name);
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.error().kind, ErrorKind::kRefused) << name;
    EXPECT_NE(found.error().message.find(mention), std::string::npos) << found.error().message;
  }
}

TEST_F(StoreTest, NearMissesAreNamed) {
  ASSERT_TRUE(store_.import(write("m.gguf"), "smollm2", ImportMode::kLink));
  EXPECT_NE(store_.resolve("smolm2").error().message.find("did you mean 'smollm2'"),
            std::string::npos);
  EXPECT_NE(store_.resolve("smollm2.gguf").error().message.find("did you mean 'smollm2'"),
            std::string::npos);
  EXPECT_NE(store_.resolve("entirely-different").error().message.find("the store has: smollm2"),
            std::string::npos);
  EXPECT_NE(store_.resolve(root_).error().message.find("folder"), std::string::npos);
  EXPECT_EQ(store_.resolve("").error().kind, ErrorKind::kUsage);
  EXPECT_NE(store_.resolve("hf:a/b").error().message.find("ondol pull hf:a/b"), std::string::npos);
  EXPECT_NE(store_.remove("smolm2").error().message.find("did you mean 'smollm2'"),
            std::string::npos);
}

TEST_F(StoreTest, AStoreThatIsNotThereIsNotMadeByRemoving) {
  Store none(Env::real(), root_ + "/none");
  EXPECT_EQ(none.remove("m").error().kind, ErrorKind::kUsage);
  EXPECT_FALSE(fs::exists(root_ + "/none"));
}

TEST_F(StoreTest, AFileInPlaceOfTheStoreIsSaid) {
  Store wrong(Env::real(), write("file"));
  for (const auto& error :
       {wrong.list().error(), wrong.remove("m").error(), wrong.resolve("m").error()}) {
    EXPECT_EQ(error.kind, ErrorKind::kUsage);
    EXPECT_NE(error.message.find("ONDOL_HOME"), std::string::npos) << error.message;
  }
}

TEST_F(StoreTest, RemoveStaysInside) {
  const std::string file = write("keep.gguf");
  ASSERT_TRUE(store_.import(file, "m", ImportMode::kCopy));
  for (const char* name : {"../outside", "../../x", "/etc/passwd", ".partial", "..", "", "."}) {
    EXPECT_EQ(store_.remove(name).error().kind, ErrorKind::kUsage) << name;
  }
  EXPECT_EQ(store_.remove(file).error().kind, ErrorKind::kUsage);
  // A folder of the store that is a link: the link goes, the folder behind it stays.
  fs::create_directory_symlink(root_ + "/outside", models("linked"));
  ASSERT_TRUE(store_.remove("linked"));
  EXPECT_TRUE(fs::exists(file));
  EXPECT_FALSE(fs::exists(models("linked")));
}

TEST_F(StoreTest, WhoeverChangesAModelIsAlone) {
  ASSERT_TRUE(store_.import(write("m.gguf"), "m", ImportMode::kCopy));
  const auto held = store_.lock("m");
  ASSERT_TRUE(held);
  EXPECT_NE(store_.remove("m").error().message.find("another process"), std::string::npos);
  EXPECT_FALSE(store_.import(write("m.gguf"), "m", ImportMode::kCopy, true));
  EXPECT_TRUE(store_.import(write("m.gguf"), "other", ImportMode::kCopy));
  EXPECT_TRUE(store_.resolve("m"));
}

TEST_F(StoreTest, BrokenNotesOfOriginAreNoObstacle) {
  ASSERT_TRUE(store_.import(write("m.gguf"), "m", ImportMode::kCopy));
  for (const char* text :
       {"", "{", "[]", "{}", R"({"repo":1,"files":[]})", R"({"repo":"a/b","files":[{"path":1}]})",
        R"({"repo":"a/b","files":[{"path":"x","size":-1,"sha256":"y"}]})"}) {
    fs::create_directories(models(".origin"));
    std::ofstream(models(".origin/m.json")) << text;
    EXPECT_FALSE(store_.find("m").value()->origin) << text;
  }
  EXPECT_FALSE(store_.resolve("hf:a/b"));
  std::ofstream(models(".origin/m.json")) << R"({"repo":"a/b","files":[]})";
  EXPECT_FALSE(store_.resolve("hf:a/b"));
}

}  // namespace
}  // namespace ondol::store
