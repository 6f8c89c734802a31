#include "support/process_fixture.h"

#include <gmock/gmock.h>

#include "node/node.h"
#include "process/lifeline.h"
#include "process/zygote.h"
#include "support/child.h"

namespace forklift::test {

// What a process keeps once it has it.
void ProcessFixture::SetUpTestSuite() {
  (void)stats();
  (void)process::lifeline().ok();
}

void ProcessFixture::SetUp() {
  // Children of tests over domains of their own were members of this one, too, and nobody has looked since.
  (void)node::Node::existing()->domain().reap();
  before_ = stats();
}

void ProcessFixture::TearDown() {
  process::stop_zygote();
  // What a child that was not joined held goes back when somebody looks.
  EXPECT_TRUE(eventually([&] {
    (void)node::Node::existing()->domain().reap();
    return stats().processes == before_.processes;
  })) << stats().processes
      << " processes are in the domain, " << before_.processes << " were before";
  const Stats after = stats();
  EXPECT_EQ(after.channels, before_.channels);
  EXPECT_EQ(after.held_blocks, before_.held_blocks);
  EXPECT_THAT(audit(), testing::IsEmpty());
}

}  // namespace forklift::test
