#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "common/base/mutex.h"

namespace pipedream {

// Ends calls in progress from another thread. Thread-safe; shared by those who cancel and those who
// wait.
class CancelToken {
 public:
  void Cancel() {
    MutexLock lock(mutex_);
    cancelled_ = true;
    for (auto& [id, action] : actions_) action();
  }
  bool cancelled() const {
    MutexLock lock(mutex_);
    return cancelled_;
  }

  // Calls `action` on Cancel, also one that has happened already, as long as the object lives. The
  // action runs under the token's lock, so that it never outlives the object: it must not block.
  class Scope {
   public:
    Scope(std::shared_ptr<CancelToken> token, std::function<void()> action)
        : token_(std::move(token)) {
      if (token_ == nullptr) return;
      MutexLock lock(token_->mutex_);
      if (token_->cancelled_) action();
      id_ = token_->next_++;
      token_->actions_[id_] = std::move(action);
    }
    ~Scope() {
      if (token_ == nullptr) return;
      MutexLock lock(token_->mutex_);
      token_->actions_.erase(id_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::shared_ptr<CancelToken> token_;
    int64_t id_ = 0;
  };

 private:
  mutable Mutex mutex_;
  bool cancelled_ PD_GUARDED_BY(mutex_) = false;
  int64_t next_ PD_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, std::function<void()>> actions_ PD_GUARDED_BY(mutex_);
};

}  // namespace pipedream
